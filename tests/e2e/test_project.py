# test_project.py -- the project's own machinery: the runner that adds up, the install target, what deps says without rights.
# SPDX-License-Identifier: Apache-2.0
import importlib.util
import os
import shutil
import subprocess

import pytest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(ROOT, os.environ.get("BUILD", "build"))


@pytest.fixture(scope="module")
def suite():
    spec = importlib.util.spec_from_file_location("suite", os.path.join(ROOT, "tools/check/suite.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


RUNNERS = {
    "[  PASSED  ] 12 test(s).": [12, 0, 0],
    "[  FAILED  ] 1 test(s), listed below:": [0, 1, 0],
    "[  SKIPPED ] 3 test(s), listed below:": [0, 0, 3],
    "[  FAILED  ] test_something": [0, 0, 0],
    "1 failed, 389 passed, 67 skipped in 98.29s (0:01:38)": [389, 1, 67],
    "== 2 passed, 1 xfailed, 3 errors in 0.50s ==": [2, 3, 1],
    "gate layers: passed: 3 files": [1, 0, 0],
    "gate layers: FAILED": [0, 1, 0],
    "gate layers: skipped: no PyPI: x": [0, 0, 1],
    "4 passed, 5 failed, 6 skipped": [4, 5, 6],
}


@pytest.mark.parametrize("line", RUNNERS)
def test_suite_counts_what_every_runner_says(suite, line):
    assert suite.count([line]) == RUNNERS[line]


def test_suite_takes_a_runners_own_total_instead_of_its_parts(suite):
    assert suite.count(["[  PASSED  ] 12 test(s).", "3 passed in 0.1s", "15 passed, 0 failed, 0 skipped"]) == [15, 0, 0]


def test_suite_accepts_only_the_listed_reasons_to_skip(suite):
    lines = ["SKIPPED [2] tests/e2e/test_a.py:12: no PyPI: torch", "skip: no right: x", "gate a: skipped: too lazy"]
    assert [suite.is_allowed(reason) for _, reason in suite.skip_reasons(lines)] == [True, True, False]


def test_suite_counts_a_runner_that_dies_as_a_failure(suite):
    sums, _ = suite.run("dies", ["sh", "-c", "echo '3 passed in 0.1s'; exit 5"])
    assert sums == [3, 1, 0]


def test_installed_tool_guards_a_program_on_the_installed_simulation(tmp_path):
    subprocess.run(["make", "-s", "install", f"DESTDIR={tmp_path}/dest", "PREFIX=/opt/guard"], cwd=ROOT, check=True, capture_output=True,
                   env={**os.environ, "BUILD": BUILD})
    prefix = tmp_path / "dest/opt/guard"
    for name in ("lib/libvramguard.so", "lib/vramguard/sim/libcuda.so.1", "share/man/man1/vramguard.1", "share/doc/vramguard/LICENSE",
                 "share/doc/vramguard/docs/report.md"):
        assert (prefix / name).exists()
    assert (prefix / "lib/vramguard/sim/libcudart_static.a").stat().st_mode & 0o777 == 0o644
    done = subprocess.run([prefix / "bin/vramguard", "run", "--sim=1GiB", f"--dir={tmp_path}", "--", os.path.join(BUILD, "examples/driver_oom")],
                          capture_output=True, text=True, timeout=60, cwd=tmp_path)
    assert "VRAMGuard: out of memory" in done.stderr


def test_deps_without_rights_prints_one_line_to_type_and_stops(tmp_path):
    """apt-get and sudo are stand-ins: the one is never reached, the other refuses."""
    for name, body in (("apt-get", f"touch {tmp_path}/reached"), ("sudo", "exit 1"), ("id", "echo 1000")):
        (tmp_path / name).write_text(f"#!/bin/sh\n{body}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("bash", "dirname", "gcc", "python3"):  # make and the rest are missing
        (tmp_path / name).symlink_to(shutil.which(name))
    done = subprocess.run([tmp_path / "bash", "tools/check/deps.sh", "demo"], cwd=ROOT, capture_output=True, text=True, timeout=60,
                          env={"PATH": str(tmp_path), "HOME": str(tmp_path)})
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("deps: please type:  sudo apt-get install -y make")
    assert not (tmp_path / "reached").exists()
