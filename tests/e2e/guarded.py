# guarded.py -- what the end-to-end tests share: programs run with and without the guard on the simulated GPU, reports, and the simulation's books.
# SPDX-License-Identifier: Apache-2.0
import glob
import json
import os
import shutil
import subprocess
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
SIM = os.path.join(BUILD, "sim")
LIBRARY = os.path.join(BUILD, "libvramguard.so")
TOOL = os.path.join(BUILD, "vramguard")
EXAMPLES = os.path.join(BUILD, "examples")
TORCH_PYTHON = os.path.join(BUILD, "venv/bin/python")
SIM_LIBRARIES = ["libvgsim_math.so", "libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1"]
MIB, GIB = 1 << 20, 1 << 30


def need_torch():
    """Skips with an allowed reason where the wheel could not be had."""
    import pytest  # here alone: tests/device.sh runs where there is none
    state = os.path.join(BUILD, "torch.state")
    if os.path.exists(state):
        with open(state, encoding="utf-8") as file:
            reason = file.read().strip()
        if reason != "ready":
            pytest.skip(reason)
    elif not os.path.exists(TORCH_PYTHON):
        pytest.skip("no PyPI: build/venv has no torch")


def environment(guard=True, sim=True, memory="24GiB", **variables):
    """An environment for a program on the simulated GPU. variables: VGSIM_* and VRAMGUARD_* without a prefix rule, as they are."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("VRAMGUARD_", "VGSIM_", "LD_", "RANK"))}
    preload = [LIBRARY] if guard else []
    paths = [p for p in ("/usr/local/cuda/lib64",) if os.path.isdir(p)]  # cuDNN and NCCL, where a toolkit has them
    if sim:
        preload += [os.path.join(SIM, name) for name in SIM_LIBRARIES]
        paths.insert(0, SIM)
        env["VGSIM_MEMORY"] = memory
    if preload:
        env["LD_PRELOAD"] = ":".join(preload)
    env["LD_LIBRARY_PATH"] = ":".join(paths)
    env.update({k: str(v) for k, v in variables.items()})
    return env


def without_tool(directory):
    """Variables for environment(): the library lies alone, and no tool is to be found."""
    alone = shutil.copy(LIBRARY, directory)
    preload = environment()["LD_PRELOAD"].replace(LIBRARY, str(alone))
    return {"LD_PRELOAD": preload, "PATH": "/nonexistent"}


def run(command, directory, timeout=120, binary=False, **options):
    """Runs to the end; stdout, stderr, returncode."""
    return subprocess.run([str(c) for c in command], env=environment(**options), cwd=directory, stdin=subprocess.DEVNULL,
                          capture_output=True, text=not binary, timeout=timeout, check=False)


def start(command, directory, **options):
    """Starts a program that is talked to line by line."""
    return subprocess.Popen([str(c) for c in command], env=environment(**options), cwd=directory, stdin=subprocess.PIPE,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def tool(*arguments, directory=None, check=True):
    """`vramguard ...`; its stdout."""
    done = subprocess.run([TOOL, *map(str, arguments)], cwd=directory, capture_output=True, text=True, timeout=60, check=False)
    if check:
        assert done.returncode == 0, done.stderr
        return done.stdout
    return done


def report_of(target, *arguments):
    """`vramguard report TARGET --json`, parsed."""
    return json.loads(tool("report", target, "--json", *arguments))


def written(directory, kind):
    """The reports of a kind ("oom", "exit") that lie in a directory, by number."""
    paths = sorted(glob.glob(os.path.join(directory, f"vramguard.*.{kind}-*.json")), key=lambda p: int(p.rsplit("-", 1)[1][:-5]))
    reports = []
    for path in paths:
        assert os.stat(path).st_mode & 0o777 == 0o600, path
        with open(path, encoding="utf-8") as file:
            reports.append(json.load(file))
    return reports


def records(directory):
    """The records of processes (not the incidents' copies)."""
    return [p for p in glob.glob(os.path.join(directory, "vramguard.*.vgr"))
            if ".oom-" not in os.path.basename(p) and ".exit-" not in os.path.basename(p)]


def account(path):
    """The simulation's own books of the one process that wrote them: a list by device."""
    out = subprocess.run([os.path.join(SIM, "vgsim-account"), path], capture_output=True, text=True, timeout=30, check=True).stdout
    processes = json.loads(out)["processes"]
    assert len(processes) == 1, processes
    return processes[0]["devices"]


def balance_sum(device):
    """The left side of the balance of design section 8; equals total_bytes in every report."""
    process = device["process"]
    null0 = lambda value: value or 0
    return (process["tracked_bytes"] + null0(process["pool_idle_bytes"])
            + sum(null0(c["overhead_bytes"]) for c in process["contexts"])
            + sum(null0(o["bytes"]) for o in device["others"] if not o["may_be_this_process"])
            + null0(device["unattributed_bytes"]) + device["free_bytes"])


def assert_adds_up(report):
    for device in report["devices"]:
        assert balance_sum(device) == device["total_bytes"], device
        assert sum(x["bytes"] for x in device["process"]["by_library"]) == device["process"]["tracked_bytes"]


OCCUPY = ("device", "pool", "vmm", "array", "mipmap", "graph")  # the kinds whose bytes are on the device


def live_kinds(books):
    """What the simulation counted as live on one device: bytes by kind."""
    return {kind: entry["requested_bytes"] for kind, entry in books["kinds"].items() if entry["requested_bytes"]}


def pool_idle(books):
    """Reserved by pools and by the graph pool, and not in use."""
    kinds = books["kinds"]
    return books["pool_reserved_bytes"] - kinds["pool"]["requested_bytes"] + books["graph_reserved_bytes"] - books["graph_used_bytes"]


def assert_equals_books(report, books, index=0):
    """Every term of the balance against what the simulation itself counted."""
    device, mine = report["devices"][index], books[index]
    process, kinds = device["process"], live_kinds(mine)
    occupied = sum(kinds.get(kind, 0) for kind in OCCUPY)
    idle = process["pool_idle_bytes"] or 0
    assert process["tracked_bytes"] == occupied
    assert device["free_bytes"] == mine["free_bytes"]
    assert device["total_bytes"] == mine["total_bytes"]
    assert sum(c["overhead_bytes"] or 0 for c in process["contexts"]) == mine["context_bytes"] + mine["page_bytes"] - occupied - idle
    assert sum(o["bytes"] for o in device["others"]) == mine["others_bytes"]
    assert device["unattributed_bytes"] == mine["hidden_bytes"]
    assert device["peak_bytes"] == mine["peak_requested_bytes"]
    assert process["pool_idle_bytes"] is None or idle == pool_idle(mine)
    assert {kind: bytes_ for kind, bytes_ in process["by_kind"].items() if bytes_} == kinds
    assert_adds_up(report)


def frames(stack, lang):
    return [f for f in stack if f["lang"] == lang]


def python_line(path, needle):
    """The number of the first line of a source file that contains a text."""
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            if needle in line:
                return number
    raise AssertionError(f"{needle!r} is not in {path}")


PYTHON = sys.executable
