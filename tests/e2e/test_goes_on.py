# test_goes_on.py -- programs that catch an out-of-memory error and go on are not harmed, and not slowed down by their report.
# SPDX-License-Identifier: Apache-2.0
import glob
import os

import pytest

import guarded
from guarded import TORCH_PYTHON

CATCH = """
import os, sys, torch
MIB = 1 << 20
kept = [torch.empty(100 * MIB, dtype=torch.uint8, device="cuda") for _ in range(20)]

def resident():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

def record_used():
    paths = [p for p in os.listdir(".") if p.endswith(".vgr") and ".oom-" not in p]
    assert len(paths) == 1, paths
    with open(paths[0], "rb") as f:
        head = f.read(32)
    return int.from_bytes(head[16:24], "little")

for n in range(1, 1001):
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        pass
    if n in (100, 1000):
        print(n, resident(), record_used(), flush=True)
"""


def test_thousand_caught_ooms_leave_the_record_and_the_process_as_they_were(tmp_path):
    guarded.need_torch()
    done = guarded.run([TORCH_PYTHON, "-c", CATCH], tmp_path, memory="4GiB")
    assert done.returncode == 0, done.stderr
    (_, rss1, used1), (_, rss2, used2) = (map(int, line.split()) for line in done.stdout.splitlines())
    assert abs(used2 - used1) <= 64 << 10
    assert rss2 - rss1 <= 64 << 10
    reports = guarded.written(tmp_path, "oom")
    assert 1 <= len(reports) <= 10
    assert [r["failure"]["count"] for r in reports] == [1, 10, 100, 1000]
    assert done.stderr.count("VRAMGuard: out of memory") == len(reports)


SECOND_THREAD = """
import sys, threading, time, torch
MIB = 1 << 20
kept = [torch.empty(100 * MIB, dtype=torch.uint8, device="cuda")]
made, stop = [], threading.Event()

def work():
    while not stop.is_set():
        x = torch.empty(2 * MIB, dtype=torch.uint8, device="cuda")
        del x
        made.append(time.monotonic())
        time.sleep(0.001)

thread = threading.Thread(target=work)
thread.start()
time.sleep(0.2)
before = time.monotonic()
try:
    torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
except torch.OutOfMemoryError:
    pass
caught = time.monotonic() - before
time.sleep(1.5)
stop.set()
thread.join()
gaps = [b - a for a, b in zip(made, made[1:]) if b > before]
print(len(gaps), max(gaps), caught)
"""


@pytest.fixture
def slow_tool(tmp_path):
    tool = tmp_path / "slow-tool"
    tool.write_text("#!/bin/sh\nexec sleep 3\n")
    tool.chmod(0o755)
    return tool


def test_other_threads_go_on_while_a_report_is_made(slow_tool, tmp_path):
    guarded.need_torch()
    done = guarded.run([TORCH_PYTHON, "-c", SECOND_THREAD], tmp_path, memory="4GiB", VRAMGUARD_TOOL=slow_tool)
    assert done.returncode == 0, done.stderr
    count, longest, caught = map(float, done.stdout.split())
    assert count > 300 and longest < 0.5 and caught < 1.0


def test_a_tool_that_is_missing_leaves_the_file_and_says_so(tmp_path):
    done = guarded.run([os.path.join(guarded.EXAMPLES, "oom")], tmp_path, memory="4GiB",
                       **guarded.without_tool(tmp_path))
    assert done.returncode == 1
    lines = done.stderr.splitlines()
    assert len(lines) == 5 and lines[0].startswith("VRAMGuard: out of memory on GPU 0")
    [incident] = glob.glob(str(tmp_path / "*.oom-1.vgr"))
    assert lines[-1].endswith(incident)
    again = guarded.report_of(incident)
    assert again["kind"] == "oom" and again["failure"]["requested_via"] == "cudaMalloc"
    guarded.assert_adds_up(again)


def test_a_report_made_again_is_the_same(tmp_path):
    guarded.run([os.path.join(guarded.EXAMPLES, "oom")], tmp_path, memory="4GiB")
    [first] = guarded.written(tmp_path, "oom")
    [incident] = glob.glob(str(tmp_path / "*.oom-1.vgr"))
    again, once_more = guarded.report_of(incident), guarded.report_of(incident)
    assert again == once_more
    for report in (first, again):
        report["process"].pop("alive", None)
        report["process"].pop("exit", None)
    assert first == again


def test_max_reports_bounds_what_is_written(tmp_path):
    done = guarded.run([os.path.join(guarded.EXAMPLES, "oom")], tmp_path, memory="4GiB", VRAMGUARD_MAX_REPORTS=0)
    assert done.stderr == "" and guarded.written(tmp_path, "oom") == []


def test_ranks_other_than_zero_print_five_lines(tmp_path):
    done = guarded.run([os.path.join(guarded.EXAMPLES, "oom")], tmp_path, memory="4GiB", RANK=3)
    assert len(done.stderr.splitlines()) == 5
    assert guarded.written(tmp_path, "oom")[0]["process"]["rank"] == 3
    assert all(".rank3." in os.path.basename(p) for p in glob.glob(str(tmp_path / "vramguard.*")))


@pytest.mark.parametrize("body", ["exit 3", "exec sleep 60"])
def test_a_report_that_nobody_waited_for_and_that_failed_is_said_at_the_end(body, tmp_path):
    """torch's callback does not wait; the five lines come when the process ends, naming the file."""
    guarded.need_torch()
    tool = tmp_path / "bad-tool"
    tool.write_text(f"#!/bin/sh\n{body}\n")
    tool.chmod(0o755)
    code = ("import torch\nkeep = torch.empty(1 << 20, dtype=torch.uint8, device='cuda')\n"
            "try: torch.empty(1 << 40, dtype=torch.uint8, device='cuda')\nexcept torch.OutOfMemoryError: print('caught')\n")
    done = guarded.run([TORCH_PYTHON, "-c", code], tmp_path, memory="4GiB", VRAMGUARD_TOOL=tool, VRAMGUARD_REPORT_TIMEOUT="1s")
    assert (done.returncode, done.stdout) == (0, "caught\n")
    lines = done.stderr.splitlines()
    assert len(lines) == 5 and lines[0].startswith("VRAMGuard: out of memory on GPU 0")
    [incident] = glob.glob(str(tmp_path / "*.oom-1.vgr"))
    assert lines[-1].endswith(incident)
