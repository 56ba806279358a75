# test_oom_c.py -- C and ctypes programs that run out of memory: what they see is unchanged, and the report equals the simulation's books.
# SPDX-License-Identifier: Apache-2.0
import os

import pytest

import guarded
from guarded import EXAMPLES, GIB, MIB, TOP

CTYPES = os.path.join(TOP, "examples/ctypes_oom.py")
PROGRAMS = {
    "oom": [os.path.join(EXAMPLES, "oom")],
    "driver_oom": [os.path.join(EXAMPLES, "driver_oom")],
    "ctypes_oom": [guarded.PYTHON, CTYPES],
}
SIM_KNOBS = {"memory": "4GiB", "VGSIM_OTHER": "991:Xorg:512MiB", "VGSIM_HIDDEN": "77MiB"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_output_and_status_are_those_of_the_unguarded_program(name, tmp_path):
    plain = guarded.run(PROGRAMS[name], tmp_path, guard=False, binary=True, **SIM_KNOBS)
    watched = guarded.run(PROGRAMS[name], tmp_path, binary=True, **SIM_KNOBS)
    silent = guarded.run(PROGRAMS[name], tmp_path, binary=True, VRAMGUARD_REPORT="none", **SIM_KNOBS)
    assert plain.returncode == watched.returncode == silent.returncode == 1
    assert plain.stdout == watched.stdout == silent.stdout and plain.stdout
    assert plain.stderr == silent.stderr
    assert watched.stderr.startswith(b"VRAMGuard: out of memory on GPU 0") and b"; again: vramguard report " in watched.stderr.splitlines()[-1]
    assert watched.stderr.endswith(b".oom-1.vgr\n")


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_term_of_the_balance_equals_the_books(name, tmp_path):
    books = tmp_path / "books"
    guarded.run(PROGRAMS[name], tmp_path, VGSIM_ACCOUNT=books, **SIM_KNOBS)
    [report] = guarded.written(tmp_path, "oom")
    guarded.assert_equals_books(report, guarded.account(books))
    device = report["devices"][0]
    assert device["others"] == [{"pid": 991, "name": "Xorg", "bytes": 512 * MIB, "may_be_this_process": False}]
    assert device["free_source"] == "cuMemGetInfo" and device["uuid"] and device["name"] == "VGSIM GPU"
    assert device["process"]["framework"] is None


def test_runtime_program_names_api_line_and_largest_site(tmp_path):
    guarded.run(PROGRAMS["oom"], tmp_path, memory="4GiB")
    [report] = guarded.written(tmp_path, "oom")
    failure = report["failure"]
    assert (failure["api"], failure["requested_via"], failure["bytes"]) == ("cuMemAlloc_v2", "cudaMalloc", GIB)
    assert failure["error"] == {"code": 2, "name": "CUDA_ERROR_OUT_OF_MEMORY"}
    assert failure["outcome"] == "failed" and failure["count"] == 1 and failure["attempts"] == 1
    names = [f["function"] for f in failure["stack"]]
    assert "ask_for_more" in names and not any("vg_" in (n or "") or "body_" in (n or "") for n in names)
    top = report["sites"][0]
    assert top["live_bytes"] == report["devices"][0]["process"]["tracked_bytes"]
    line = guarded.python_line(os.path.join(TOP, "examples/oom.c"), "cudaError_t rc = cudaMalloc")
    at = next(f for f in top["stack"] if f["function"] == "allocate")
    assert at["file"].endswith("oom.c") and at["line"] == line
    assert any(f["function"] == "load_weights" for f in top["stack"])
    assert [s["id"] for s in report["sites"]].count(failure["site"]) == 1


def test_driver_program_counts_each_kind(tmp_path):
    guarded.run(PROGRAMS["driver_oom"], tmp_path, memory="4GiB")
    [report] = guarded.written(tmp_path, "oom")
    process = report["devices"][0]["process"]
    assert process["by_kind"]["device"] == 100 * MIB + 1024 * 1000
    assert (process["by_kind"]["managed"], process["by_kind"]["pinned"]) == (64 * MIB, 32 * MIB)
    assert report["host"]["pinned_bytes"] == 32 * MIB
    [context] = process["contexts"]
    assert context["primary"] is False
    assert any(f["function"] == "main" for f in context["stack"])
    assert report["failure"]["requested_via"] == report["failure"]["api"] == "cuMemAlloc_v2"


def test_ctypes_program_names_the_python_lines(tmp_path):
    guarded.run(PROGRAMS["ctypes_oom"], tmp_path, memory="4GiB")
    [report] = guarded.written(tmp_path, "oom")
    python = guarded.frames(report["failure"]["stack"], "python")
    line = guarded.python_line(CTYPES, "cuda.cuMemAlloc_v2")
    assert [(f["function"], f["line"]) for f in python][:2] == [("grow", line), ("main", guarded.python_line(CTYPES, "while grow"))]
    assert all(f["file"].endswith("ctypes_oom.py") for f in python)
    assert guarded.frames(report["sites"][0]["stack"], "python")[0]["line"] == line
    assert report["process"]["python"].startswith("3.")


@pytest.mark.parametrize("knobs, verdict", [
    ({"VGSIM_OTHER": "77:trainer:3GiB"}, "other-process"),
    ({}, "unknown"),
])
def test_verdict_follows_the_balance(knobs, verdict, tmp_path):
    guarded.run(PROGRAMS["oom"], tmp_path, memory="4GiB", **knobs)
    assert guarded.written(tmp_path, "oom")[0]["verdict"]["class"] == verdict


@pytest.mark.parametrize("api, code, verdict", [
    ("cuMemAlloc_v2", 2, "not-memory"),   # refused although nearly everything is free
    ("cuMemAlloc_v2", 719, "not-memory"), # a launch failure that sticks
    ("cuMemHostAlloc", 2, "host-memory"),
    ("cuMemAllocManaged", 2, "host-memory"),
])
def test_verdict_of_an_injected_failure(api, code, verdict, tmp_path):
    guarded.run(PROGRAMS["driver_oom"], tmp_path, VGSIM_FAIL=f"{api}:1:{code}")
    [report] = guarded.written(tmp_path, "oom")
    assert report["failure"]["error"]["code"] == code
    assert report["verdict"]["class"] == verdict, report["verdict"]
