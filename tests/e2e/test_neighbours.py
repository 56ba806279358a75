# test_neighbours.py -- the guard beside plugins, a library's own runtime, ThreadSanitizer, a slow NVML, and in a program killed after an out-of-memory.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import subprocess

import pytest

import compiled
import guarded
from guarded import MIB


def program():
    return compiled.build("case_neighbours", "-ldl")


def test_a_plugin_is_unloaded_as_without_the_guard(tmp_path):
    plugin = compiled.library("case_plugin", "plugin.so", libraries=(compiled.DRIVER,))
    plain, watched = (guarded.run([program(), "plugin", plugin], tmp_path, guard=guard) for guard in (False, True))
    assert plain.stdout == watched.stdout == "call 0\nunloaded\n" * 3
    assert plain.returncode == watched.returncode == 0


def test_a_library_keeps_its_own_runtime(tmp_path):
    """No other runtime is in the process: the plugin's own is the only one there is."""
    plugin = compiled.library("case_plugin", "own-runtime.so", "-DOWN_RUNTIME", "-fsemantic-interposition", "-fno-inline",
                              libraries=(compiled.DRIVER,))
    plain, watched = (guarded.run([program(), "plugin", plugin], tmp_path, LD_PRELOAD=preload) for preload in ("", guarded.LIBRARY))
    assert plain.stdout.count("own runtime") == watched.stdout.count("own runtime") == 3
    assert "call 0" in watched.stdout and "call 8" not in watched.stdout
    assert plain.returncode == watched.returncode == 0


def test_thread_sanitizer_sees_no_race(tmp_path):
    assert shutil.which("clang"), "clang is one of the compilers"
    threads = tmp_path / "threads"
    subprocess.run(["clang", *compiled.FLAGS, "-fsanitize=thread", os.path.join(compiled.HERE, "case_neighbours.c"), "-o", threads,
                    "-Wl,--no-as-needed", compiled.DRIVER, "-ldl", "-Wl,-rpath-link," + guarded.SIM], check=True)
    done = guarded.run(["setarch", "-R", threads, "threads"], tmp_path)
    assert done.returncode == 0 and "ThreadSanitizer" not in done.stderr, done.stderr


def test_threads_that_fail_while_another_opens_nvml_know_the_other_processes(tmp_path):
    nvml = compiled.library("case_slow_nvml", "libnvidia-ml.so.1", "-Wl,-soname,libnvidia-ml.so.1")
    preload = [guarded.LIBRARY, os.path.join(guarded.SIM, "libcuda.so.1"), nvml]
    done = guarded.run([program(), "fail-together"], tmp_path, LD_PRELOAD=":".join(preload))
    assert done.returncode == 0, done.stderr
    reports = guarded.written(tmp_path, "oom")
    assert [r["failure"]["count"] for r in reports] == [1, 10]
    for report in reports:
        assert [(o["pid"], o["bytes"]) for o in report["devices"][0]["others"]] == [(991, 1500 * MIB)]


@pytest.mark.parametrize("others", ["", "991:Xorg:1500MiB"])
def test_killed_soon_after_an_oom_the_figures_are_of_one_moment(others, tmp_path):
    guarded.run([program(), "killed-after-oom"], tmp_path, VGSIM_ACCOUNT=tmp_path / "books", VGSIM_OTHER=others)
    report = guarded.report_of(guarded.records(tmp_path)[0], "--now")
    guarded.assert_equals_books(report, guarded.account(tmp_path / "books"))
