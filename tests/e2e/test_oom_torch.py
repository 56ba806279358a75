# test_oom_torch.py -- the official PyTorch wheel on the simulated GPU, into its out-of-memory report.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess
import glob

import pytest

import guarded
from guarded import GIB, MIB, TOP, TORCH_PYTHON

TRAIN = os.path.join(TOP, "examples/train.py")
MOMENTS = os.path.join(TOP, "tests/e2e/torch_moments.py")
KNOBS = {"memory": "24GiB", "VGSIM_OTHER": "991:Xorg:1536MiB", "VGSIM_HIDDEN": "100MiB"}


@pytest.fixture(autouse=True)
def torch_is_there():
    guarded.need_torch()


@pytest.fixture(scope="module")
def train(tmp_path_factory):
    """train.py --batch 4096 without the guard, with it, and with report=none."""
    guarded.need_torch()
    command, runs = [TORCH_PYTHON, TRAIN, "--batch", "4096"], {}
    for name, options in {"plain": {"guard": False}, "watched": {}, "silent": {"VRAMGUARD_REPORT": "none"}}.items():
        directory = tmp_path_factory.mktemp(name)
        done = guarded.run(command, directory, binary=True, VGSIM_ACCOUNT=directory / "books", **KNOBS, **options)
        runs[name] = done, directory
    return runs


def without_addresses(text):
    return re.sub(rb"0x[0-9a-f]+", b"0x", text)


def test_stdout_status_and_exception_are_those_of_the_unguarded_program(train):
    plain, watched, silent = (train[n][0] for n in ("plain", "watched", "silent"))
    assert plain.returncode == watched.returncode == silent.returncode == 1
    assert plain.stdout == watched.stdout == silent.stdout and b"bytes allocated" in plain.stdout
    assert b"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate" in plain.stderr
    blocks = re.split(rb"(?m)^VRAMGuard: out of memory[^\0]*?; again: vramguard report [^\n]*\.vgr\n", watched.stderr)
    assert len(blocks) == 2
    own = lambda text: re.sub(rb"Process \d+", b"Process N", text)
    assert own(b"".join(blocks)) == own(plain.stderr)
    assert own(silent.stderr) == own(plain.stderr)


def test_text_report_names_the_line_and_adds_up(train):
    done, _ = train["watched"]
    text = re.search(r"(?ms)^VRAMGuard: out of memory.*?; again: vramguard report [^\n]*\.vgr$", done.stderr.decode()).group(0)
    lines = text.split("\n")
    assert len(lines) <= 42 and max(map(len, lines[1:-1])) <= 100
    traceback = re.findall(r'File "[^"]*/train\.py", line (\d+), in (\w+)', done.stderr.decode())
    line, function = traceback[-1]
    assert function == "forward"
    [request] = re.findall(r"^  request .*(?:\n {11}.*)*", text, re.M)
    assert re.findall(r"train\.py:(\d+) (\w+)", request)[0] == (line, function), request
    rows = [line for line in lines if re.match(r" {4}\S.* \d+\.\d\d +\d+\.\d( |$)", line)]
    values = [float(re.search(r"(\d+\.\d\d) +\d+\.\d(?: |$)", row).group(1)) for row in rows]
    assert rows[-1].strip().startswith("total") and values[-1] == 24.0
    assert abs(sum(values[:-1]) - values[-1]) < 0.001, rows


def test_every_term_of_the_balance_equals_the_books(train):
    done, directory = train["watched"]
    [report] = guarded.written(directory, "oom")
    guarded.assert_equals_books(report, guarded.account(directory / "books"))
    failure = report["failure"]
    assert failure["library"] and "torch" in failure["library"] or "c10" in failure["library"]
    assert (failure["api"], failure["requested_via"], failure["attempts"]) == ("cuMemAlloc_v2", "cudaMalloc", 2)
    asked = re.search(rb"Tried to allocate ([\d.]+) (MiB|GiB)", done.stderr)
    unit = {b"MiB": MIB, b"GiB": GIB}[asked.group(2)]
    assert abs(failure["requested_bytes"] - float(asked.group(1)) * unit) < 0.01 * unit
    python = guarded.frames(failure["stack"], "python")
    assert any(f["file"].endswith("train.py") and f["function"] == "forward" for f in python)
    assert python[-1]["function"] == "<module>" and python[-1]["file"].endswith("train.py")
    assert report["process"]["torch"].startswith("2.11")


def test_sites_of_tensors_add_up_to_what_torch_allocated(train):
    [report] = guarded.written(train["watched"][1], "oom")
    tensors = [s for s in report["sites"] if s["layer"] == "torch"]
    assert sum(s["live_bytes"] for s in tensors) == report["devices"][0]["process"]["framework"]["allocated_bytes"]
    order = [s["live_bytes"] for s in report["sites"]]
    assert order == sorted(order, reverse=True)
    named = [s for s in tensors if s["live_bytes"] > 1e6]
    assert named and all(guarded.frames(s["stack"], "python") for s in named)


@pytest.mark.parametrize("segments", ["plain", "expandable"])
def test_framework_equals_torch_at_four_moments(tmp_path, segments):
    books = tmp_path / "books"
    program = guarded.start([TORCH_PYTHON, MOMENTS], tmp_path, memory="4GiB", VGSIM_ACCOUNT=books, VRAMGUARD_SAMPLE="1ms",
                            VGSIM_HIDDEN="100MiB", PYTORCH_CUDA_ALLOC_CONF=f"expandable_segments:{segments == 'expandable'}")
    seen = []
    for name in ("grown", "holes", "emptied"):
        said = program.stdout.readline().split()
        assert said[0] == name
        report = guarded.report_of(program.pid, "--now")
        assert report["kind"] == "snapshot" and report["process"]["alive"] is True
        framework = report["devices"][0]["process"]["framework"]
        assert (framework["allocated_bytes"], framework["reserved_bytes"]) == (int(said[1]), int(said[2]))
        guarded.assert_equals_books(report, guarded.account(books))
        seen.append((int(said[1]), int(said[2])))
        program.stdin.write("\n")
        program.stdin.flush()
    rest, _ = program.communicate(timeout=60)
    allocated, reserved = map(int, rest.split()[1:3])
    [report] = guarded.written(tmp_path, "oom")
    framework = report["devices"][0]["process"]["framework"]
    assert (framework["allocated_bytes"], framework["reserved_bytes"]) == (allocated, reserved)
    seen.append((allocated, reserved))
    assert all(a > 0 and r > 0 for a, r in seen) and len(set(seen)) == 4
    assert set(report["devices"][0]["process"]["by_kind"]) == {"vmm" if segments == "expandable" else "device"}
    guarded.assert_equals_books(report, guarded.account(books))


def test_both_callbacks_of_the_wheel_are_ours(tmp_path):
    """Their names are those that the wheel's libc10_cuda imports, and each is called."""
    [c10_cuda] = glob.glob(os.path.join(guarded.BUILD, "venv/lib/python3*/site-packages/torch/lib/libc10_cuda.so"))
    listing = lambda *a: subprocess.run(["nm", "-D", *a], capture_output=True, text=True, check=True).stdout
    wanted = set(re.findall(r" U (\w*report(?:MemoryUsage|OutOfMemory)ToProfiler\w*)", listing("--undefined-only", c10_cuda)))
    assert len(wanted) == 2
    assert wanted <= set(re.findall(r" T (\w+)", listing("--defined-only", guarded.LIBRARY)))
    code = ("import torch\nkeep = [torch.empty(100 << 20, dtype=torch.uint8, device='cuda') for _ in range(3)]\n"
            "try: torch.empty(1 << 40, dtype=torch.uint8, device='cuda')\nexcept torch.OutOfMemoryError: print('caught')\n")
    done = guarded.run([TORCH_PYTHON, "-c", code], tmp_path, memory="4GiB")
    assert done.stdout == "caught\n"
    [report] = guarded.written(tmp_path, "oom")
    assert report["hooks"]["reached"] == {"driver": True, "runtime": True, "torch": True}
    assert report["devices"][0]["process"]["framework"]["allocated_bytes"] == 300 * MIB  # the usage callback
    assert report["failure"]["requested_bytes"] == 1 << 40                               # the out-of-memory callback


def test_memory_fraction_fails_without_a_driver_call(tmp_path):
    code = ("import torch\ntorch.cuda.set_per_process_memory_fraction(0.25)\nkeep = []\n"
            "try:\n  while True: keep.append(torch.empty(100 << 20, dtype=torch.uint8, device='cuda'))\n"
            "except torch.OutOfMemoryError: print('caught', len(keep))\n")
    done = guarded.run([TORCH_PYTHON, "-c", code], tmp_path, memory="4GiB")
    assert done.stdout.startswith("caught")
    [report] = guarded.written(tmp_path, "oom")
    failure = report["failure"]
    assert failure["api"] is None and failure["bytes"] is None and failure["attempts"] == 0
    assert failure["requested_bytes"] == 100 * MIB


def test_a_failure_that_torch_recovers_from_makes_no_report(tmp_path):
    code = ("import torch\na = [torch.empty(300 << 20, dtype=torch.uint8, device='cuda') for _ in range(10)]\ndel a\n"
            "b = torch.empty(3000 << 20, dtype=torch.uint8, device='cuda')\nprint(b.numel())\n")
    done = guarded.run([TORCH_PYTHON, "-c", code], tmp_path, memory="4GiB", VRAMGUARD_KEEP="always")
    assert done.returncode == 0 and done.stderr == ""
    assert guarded.written(tmp_path, "oom") == []
    assert guarded.written(tmp_path, "exit")[0]["failure"] is None


def test_an_out_of_memory_before_any_allocation_leaves_a_report(tmp_path):
    """The framework's own limit refuses the first request: its callback is the first thing that the guard sees."""
    code = ("import torch\ntorch.cuda.set_per_process_memory_fraction(0.01)\n"
            "try: torch.empty(1 << 30, dtype=torch.uint8, device='cuda')\nexcept torch.OutOfMemoryError: print('caught')\n")
    done = guarded.run([TORCH_PYTHON, "-c", code], tmp_path, memory="4GiB")
    assert (done.returncode, done.stdout) == (0, "caught\n")
    [report] = guarded.written(tmp_path, "oom")
    assert (report["failure"]["api"], report["failure"]["requested_bytes"]) == (None, 1 << 30)


FAIL_THRICE = """
import torch
keep = [torch.empty(100 << 20, dtype=torch.uint8, device="cuda") for _ in range(3)]
for _ in range(3):
    try:
        torch.empty(1 << 40, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        print("caught")
"""


def test_blocks_that_are_not_followed_change_nothing_about_what_is_final(tmp_path):
    done = guarded.run([TORCH_PYTHON, "-c", FAIL_THRICE], tmp_path, memory="4GiB", VRAMGUARD_TORCH=0)
    assert done.stdout == "caught\n" * 3
    [report] = guarded.written(tmp_path, "oom")
    failure = report["failure"]
    assert (failure["requested_bytes"], failure["attempts"], failure["count"]) == (1 << 40, 2, 1)
    assert report["hooks"]["reached"]["torch"] is False
    assert all(s["layer"] != "torch" or s["id"] == failure["site"] for s in report["sites"])
    assert report["devices"][0]["process"]["framework"] is None
    [record] = guarded.records(tmp_path)
    assert guarded.report_of(record, "--now")["hooks"]["reached"]["torch"] is False


def test_what_torch_recovers_from_makes_no_report_where_its_blocks_are_not_followed(tmp_path):
    code = ("import torch\na = [torch.empty(300 << 20, dtype=torch.uint8, device='cuda') for _ in range(10)]\ndel a\n"
            "b = torch.empty(3000 << 20, dtype=torch.uint8, device='cuda')\nprint(b.numel())\n")
    done = guarded.run([TORCH_PYTHON, "-c", code], tmp_path, memory="4GiB", VRAMGUARD_TORCH=0)
    assert done.returncode == 0 and done.stderr == "" and guarded.written(tmp_path, "oom") == []


@pytest.mark.parametrize("conf", ["expandable_segments:True", "backend:cudaMallocAsync", "native"])
def test_every_backend_of_torch_ends_in_one_report_that_equals_the_books(conf, tmp_path):
    # The books are read at the end, so the tensors must live until then.
    code = ("import os, torch\nkeep = []\ntry:\n"
            "  while True: keep.append(torch.empty(300 << 20, dtype=torch.uint8, device='cuda'))\n"
            "except torch.OutOfMemoryError: print('caught', len(keep), flush=True)\nos._exit(0)\n")
    books = tmp_path / "books"
    variables = {} if conf == "native" else {"PYTORCH_CUDA_ALLOC_CONF": conf}
    done = guarded.run([TORCH_PYTHON, "-c", code], tmp_path, memory="4GiB", VGSIM_ACCOUNT=books, VGSIM_HIDDEN="50MiB", **variables)
    assert done.returncode == 0 and done.stdout.startswith("caught"), done.stderr
    [report] = guarded.written(tmp_path, "oom")
    guarded.assert_equals_books(report, guarded.account(books))
    if conf != "backend:cudaMallocAsync":
        assert report["failure"]["requested_bytes"] == 300 * MIB
        assert report["devices"][0]["process"]["framework"]["allocated_bytes"] == int(done.stdout.split()[1]) * 300 * MIB
    assert "exceeds free" in report["verdict"]["summary"]
