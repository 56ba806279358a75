# test_fork.py -- children of a guarded process: who has a record, who ends it, and that the parent goes on being counted.
# SPDX-License-Identifier: Apache-2.0
import os
import signal

import pytest

import compiled
import guarded
from guarded import MIB, PYTHON


def run_case(directory, *arguments, **options):
    options.setdefault("VRAMGUARD_KEEP", "always")
    return guarded.run([compiled.build("case_forks"), *arguments], directory, **options)


def said_live(done):
    """pid -> live bytes, as the programs printed them."""
    return {int(pid): int(live) for pid, live in (line.split() for line in done.stdout.splitlines())}


def reports(directory):
    """pid -> report of its record; no pid has two."""
    all_reports = [guarded.report_of(path) for path in guarded.records(directory)]
    assert len({r["process"]["pid"] for r in all_reports}) == len(all_reports)
    return {r["process"]["pid"]: r for r in all_reports}


def tracked(report):
    return report["devices"][0]["process"]["tracked_bytes"]


def assert_parent_was_left_alone(done, directory):
    assert done.returncode == -signal.SIGKILL and done.stderr == ""
    [(pid, live)] = said_live(done).items()
    [report] = reports(directory).values()
    assert report["process"]["pid"] == pid and tracked(report) == live
    assert report["process"]["exit"] is None, "a child marked the parent as ended"
    assert report["failure"] is None
    return report


def test_child_of_a_cold_process_has_a_record_of_its_own(tmp_path):
    done = run_case(tmp_path, "cold")
    assert done.returncode == 0, done.stderr
    live, by_pid = said_live(done), reports(tmp_path)
    assert sorted(live.values()) == [3 * MIB, 5 * MIB]
    assert {pid: tracked(r) for pid, r in by_pid.items()} == live
    assert {r["process"]["exit"]["code"] for r in by_pid.values()} == {0, 7}


@pytest.mark.parametrize("way", ["exit", "_exit", "_Exit", "quick_exit"])
@pytest.mark.parametrize("kind", ["fork", "_Fork", "clone"])
def test_child_of_a_guarded_process_is_off(kind, way, tmp_path):
    report = assert_parent_was_left_alone(run_case(tmp_path, "on", kind, way), tmp_path)
    assert report["devices"][0]["process"]["alloc_count"] == 2 and report["hooks"]["unknown_free_count"] == 0


def test_vfork_child_whose_exec_fails_leaves_the_parent_guarded(tmp_path):
    assert_parent_was_left_alone(run_case(tmp_path, "vfork"), tmp_path)


def test_children_of_a_busy_process_never_touch_its_record(tmp_path):
    assert_parent_was_left_alone(run_case(tmp_path, "busy"), tmp_path)


def test_second_program_of_a_pid_has_its_own_record(tmp_path):
    done = run_case(tmp_path, "exec")
    assert done.returncode == 0 and done.stderr == ""
    first, second = (int(line.split()[1]) for line in done.stdout.splitlines())
    paths = sorted(guarded.records(tmp_path), key=os.path.getmtime)
    found = {tracked(guarded.report_of(p)): os.path.basename(p) for p in paths}
    assert set(found) == {first, second}
    assert found[second] == found[first].replace(".vgr", "-2.vgr")


CUDA = """
import ctypes, os, subprocess, sys
cuda = ctypes.CDLL("libcuda.so.1")
def use():
    context = ctypes.c_void_p()
    assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxSetCurrent(context)
def take(size):
    pointer = ctypes.c_uint64()
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
def say(live):
    os.write(1, b"%d %d\\n" % (os.getpid(), live))
"""

SUBPROCESS = CUDA + """
use()
take(3 << 20)
for i in range(3):
    try:
        subprocess.run(["/nonexistent/program"])
        sys.exit("that cannot be")
    except FileNotFoundError:
        pass
subprocess.run(["true"], check=True)
take(5 << 20)
cuda.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 40))
"""


def test_python_subprocess_that_cannot_exec_leaves_the_parent_guarded(tmp_path):
    books = tmp_path / "books"
    done = guarded.run([PYTHON, "-c", SUBPROCESS], tmp_path, VGSIM_ACCOUNT=books)
    assert done.returncode == 0, done.stderr
    [report] = guarded.written(tmp_path, "oom")
    guarded.assert_equals_books(report, guarded.account(books))
    assert tracked(report) == 8 * MIB and len(guarded.records(tmp_path)) == 1


WORKERS = CUDA + """
import multiprocessing
def worker(n):
    if FIRST == "child":
        use()
        take(n << 20)
    say(n << 20)
if FIRST == "parent":
    use()
    take(100 << 20)
workers = [multiprocessing.get_context("fork").Process(target=worker, args=(n,)) for n in (1, 2, 3)]
for w in workers: w.start()
for w in workers: w.join()
assert all(w.exitcode == 0 for w in workers)
if FIRST == "parent":
    take(100 << 20)
    say(200 << 20)
"""


def test_multiprocessing_workers_end_their_own_records_with_a_status(tmp_path):
    done = guarded.run([PYTHON, "-c", "FIRST = 'child'\n" + WORKERS], tmp_path, VRAMGUARD_KEEP="always")
    assert done.returncode == 0 and done.stderr == ""
    by_pid = reports(tmp_path)
    assert {pid: tracked(r) for pid, r in by_pid.items()} == said_live(done) and len(by_pid) == 3
    assert all(r["process"]["exit"] == {"code": 0} for r in by_pid.values())


def test_multiprocessing_workers_leave_no_records_where_nothing_was_found(tmp_path):
    done = guarded.run([PYTHON, "-c", "FIRST = 'child'\n" + WORKERS], tmp_path)
    assert done.returncode == 0 and done.stderr == "" and os.listdir(tmp_path) == []


def test_multiprocessing_workers_of_a_guarded_parent_leave_its_record_alone(tmp_path):
    done = guarded.run([PYTHON, "-c", "FIRST = 'parent'\n" + WORKERS], tmp_path, VRAMGUARD_KEEP="always")
    assert done.returncode == 0 and done.stderr == ""
    [report] = reports(tmp_path).values()
    assert tracked(report) == 200 * MIB == said_live(done)[report["process"]["pid"]]
    assert report["process"]["exit"] == {"code": 0} and report["devices"][0]["process"]["alloc_count"] == 2
