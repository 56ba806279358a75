# test_sigkill.py -- a process that is killed leaves a record that opens, checks, and says what was live.
# SPDX-License-Identifier: Apache-2.0
import os
import random
import signal
import time

import guarded

HOLD = """
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
assert not cuda.cuInit(0) and not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) and not cuda.cuCtxSetCurrent(context)
live, blocks = 0, []
for n in range(1, 200):
    size = n * 4099
    assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    blocks.append((pointer.value, size))
    live += size
    if n % 3 == 0:
        address, freed = blocks.pop(n % len(blocks))
        assert not cuda.cuMemFree_v2(ctypes.c_uint64(address))
        live -= freed
print(live, len(blocks), flush=True)
time.sleep(60)
"""

STORM = """
import ctypes, random
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0); cuda.cuCtxSetCurrent(context)
blocks = []
print("go", flush=True)
while True:
    if len(blocks) < 50 or random.random() < 0.5 and len(blocks) < 400:
        cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(random.randrange(1, 1 << 20)))
        blocks.append(pointer.value)
    else:
        cuda.cuMemFree_v2(ctypes.c_uint64(blocks.pop(random.randrange(len(blocks)))))
"""


def test_a_killed_process_leaves_what_was_live(tmp_path):
    program = guarded.start([guarded.PYTHON, "-c", HOLD], tmp_path)
    live, count = map(int, program.stdout.readline().split())
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    [record] = guarded.records(tmp_path)
    report = guarded.report_of(record)
    process = report["devices"][0]["process"]
    assert report["kind"] == "exit" and report["process"]["alive"] is False and report["process"]["exit"] is None
    assert process["tracked_bytes"] == process["by_kind"]["device"] == live
    assert process["alloc_count"] - process["free_count"] == count
    assert sum(s["live_bytes"] for s in report["sites"]) == live
    guarded.assert_adds_up(report)


def test_every_record_of_a_kill_storm_opens_and_adds_up(tmp_path):
    """Whole processes, killed at random moments of a storm. 400 kills of the bare writer are in tests/unit/test_property.c."""
    random.seed(5)
    for round_number in range(20):
        directory = tmp_path / str(round_number)
        directory.mkdir()
        program = guarded.start([guarded.PYTHON, "-c", STORM], directory)
        assert program.stdout.readline() == "go\n"
        time.sleep(random.uniform(0.02, 0.08))
        program.kill()
        program.wait()
        [record] = guarded.records(directory)
        report = guarded.report_of(record)
        process = report["devices"][0]["process"]
        assert process["tracked_bytes"] == sum(s["live_bytes"] for s in report["sites"] if s["kind"] == "device") > 0
        assert process["alloc_count"] - process["free_count"] == sum(s["live_count"] for s in report["sites"])


def test_run_says_where_the_record_of_a_killed_program_is(tmp_path):
    code = f"import os, signal\n{HOLD.replace('time.sleep(60)', 'os.kill(os.getpid(), signal.SIGKILL)')}"
    done = guarded.run([guarded.TOOL, "run", "--sim=24GiB", "--", guarded.PYTHON, "-c", code], tmp_path, guard=False, sim=False)
    [record] = guarded.records(tmp_path)
    assert done.returncode in (-signal.SIGKILL, 128 + signal.SIGKILL)
    assert os.path.basename(record) in done.stderr.splitlines()[-1]
