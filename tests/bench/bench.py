#!/usr/bin/env python3
# bench.py -- the budget: one row `name  value  bar  ok|short`, every value a ratio or a size taken within this run.
# SPDX-License-Identifier: Apache-2.0
#
# Compared runs are interleaved and the medians compared, and loops are timed in CPU time, so that a busy machine hurts both sides. Missing a bar does not end this with an error;
# a measurement that could not be made does.
import glob
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, os.environ.get("BUILD", "build"))
LIBRARY, TOOL = os.path.join(BUILD, "libvramguard.so"), os.path.join(BUILD, "vramguard")
PROGRAMS, SIM = os.path.join(BUILD, "tests/bench"), os.path.join(BUILD, "sim")
PYTHON = os.path.join(BUILD, "venv/bin/python")
PAIRS, DEPTH, LIVE = 200_000, 20, 100_000
problems = []


def row(name, value, bar, is_ok, note=""):
    print(f"{name:<58} {value:>10}  {bar:>10}  {'ok' if is_ok else 'short'}{'  ' + note if note else ''}", flush=True)


def clean_environment(**extra):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("VRAMGUARD_", "VGSIM_", "LD_"))}
    return {**kept, **extra}


def guarded(folder, **options):
    settings = {"VRAMGUARD_DIR": folder, "VRAMGUARD_KEEP": "always", "VRAMGUARD_REPORT": "none"}
    settings.update({f"VRAMGUARD_{key.upper()}": value for key, value in options.items()})
    return clean_environment(LD_PRELOAD=LIBRARY, **settings)


def output(command, environment):
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout


def only_record(folder):
    records = glob.glob(os.path.join(folder, "*.vgr"))
    if len(records) != 1:
        raise RuntimeError(f"{len(records)} records instead of one")
    return records[0]


def report(record):
    return json.loads(output([TOOL, "report", record, "--json"], clean_environment()))


def heaptrack_library():
    script = shutil.which("heaptrack")
    if not script:
        raise RuntimeError("heaptrack is not installed")
    return os.path.join(os.path.dirname(os.path.realpath(script)), "../lib/heaptrack/libheaptrack_preload.so")


def heaptrack_pair(folder):
    """(ns, events recorded). Its raw output goes to a file, as `heaptrack --raw` without the compression."""
    path = os.path.join(folder, "heaptrack.raw")
    environment = clean_environment(LD_PRELOAD=heaptrack_library(), DUMP_HEAPTRACK_OUTPUT=path)
    taken = float(output([PROGRAMS + "/pair", "malloc", str(PAIRS), str(DEPTH)], environment))
    with open(path, "rb") as file:
        events = sum(line.startswith((b"+", b"-")) for line in file)
    os.remove(path)
    return taken, events


def guard_pair(folder):
    with tempfile.TemporaryDirectory(dir=folder) as own:
        taken = float(output([PROGRAMS + "/pair", "cuda", str(PAIRS), str(DEPTH)], guarded(own, stacks="native")))
        process = report(only_record(own))["devices"][0]["process"]
        return taken, process["alloc_count"] + process["free_count"]


def bench_pair(folder):
    bare, guard, other = [], [], []
    for _ in range(5):
        bare.append(float(output([PROGRAMS + "/pair", "cuda", str(PAIRS), str(DEPTH)], clean_environment())))
        guard.append(guard_pair(folder))
        other.append(heaptrack_pair(folder))
    made = 2 * (PAIRS + PAIRS // 10 + 1)
    seen, others_seen = min(events for _, events in guard), min(events for _, events in other)
    guard_ns, other_ns = (statistics.median(taken for taken, _ in runs) for runs in (guard, other))
    ratio = guard_ns / other_ns
    note = (f"guard {guard_ns:.0f} ns with {seen} of {made} events recorded, heaptrack {other_ns:.0f} ns with {others_seen}, "
            f"bare {statistics.median(bare):.0f} ns")
    row("alloc+free pair, depth 20, native stack / heaptrack's pair", f"{ratio:.2f} x", "0.35 x", ratio <= 0.35 and seen == made, note)


def spawn_seconds(environment):
    begin = time.perf_counter()
    os.waitpid(os.posix_spawn("/bin/true", ["true"], environment), 0)
    return time.perf_counter() - begin


def bench_idle(_folder):
    without, loaded = clean_environment(), clean_environment(LD_PRELOAD=LIBRARY)
    pairs = [(spawn_seconds(without), spawn_seconds(loaded)) for _ in range(300)]
    cost = 1e3 * (statistics.median(b for _, b in pairs) - statistics.median(a for a, _ in pairs))
    row("a process that never uses CUDA (true)", f"{cost:.2f} ms", "0.5 ms", cost <= 0.5)


def bench_live(folder):
    sizes = {}
    for count in (1, LIVE):
        with tempfile.TemporaryDirectory(dir=folder) as own:
            gained = int(output([PROGRAMS + "/live", str(count)], guarded(own)))
            record = only_record(own)
            sizes[count] = os.stat(record).st_blocks * 512
            if count == LIVE:
                listed = report(record)["devices"][0]["process"]["by_kind"].get("device")
                kept = os.path.join(folder, "live.vgr")
                shutil.copy(record, kept)
    per_record = (sizes[LIVE] - sizes[1]) / LIVE
    note = "" if listed == 512 * LIVE else f"but only {listed} of {512 * LIVE} bytes are in the record"
    row("record, bytes per live allocation", f"{per_record:.1f} B", "64 B", per_record <= 64 and not note, note)
    row("indexes, bytes per live allocation", f"{gained / LIVE:.1f} B", "96 B", gained / LIVE <= 96)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        report(kept)
        times.append(time.perf_counter() - begin)
    taken = statistics.median(times)
    row("report --json with 100,000 live allocations", f"{taken:.2f} s", "0.3 s", taken <= 0.3)


def bench_step(folder):
    if not os.path.exists(PYTHON) or subprocess.run([PYTHON, "-c", "import torch"], capture_output=True).returncode:
        print("CPU-bound PyTorch step, guard on / off: skipped, no torch in build/venv")
        return
    device = ":".join(os.path.join(SIM, name) for name in
                      ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1", "libvgsim_math.so"))
    command = [PYTHON, os.path.join(TOP, "tests/bench/step.py"), "6", "40"]
    off, on = [], []
    for _ in range(6):
        off += output(command, clean_environment(LD_PRELOAD=device, VGSIM_MEMORY="24GiB")).split()
        with tempfile.TemporaryDirectory(dir=folder) as own:
            environment = guarded(own)
            environment.update(LD_PRELOAD=f"{LIBRARY}:{device}", VGSIM_MEMORY="24GiB")
            on += output(command, environment).split()
            reached = report(only_record(own))["hooks"]["reached"]
    off_s, on_s = (statistics.median(map(float, values)) for values in (off, on))
    note = f"{1e3 * off_s:.2f} ms without" + ("" if reached["torch"] else ", but torch's callbacks were not reached")
    row("CPU-bound PyTorch step, guard on / off", f"{on_s / off_s:.3f} x", "1.03 x", on_s / off_s <= 1.03 and reached["torch"], note)


def main():
    print(f"{'what':<58} {'value':>10}  {'bar':>10}")
    with tempfile.TemporaryDirectory() as folder:
        for bench in (bench_pair, bench_idle, bench_live, bench_step):
            try:
                bench(folder)
            except (RuntimeError, OSError, ValueError, KeyError, IndexError, subprocess.CalledProcessError) as error:
                said = (getattr(error, "stderr", "") or "").strip().splitlines()
                problems.append(bench.__name__)
                print(f"{bench.__name__}: could not be measured: {error}{': ' + said[-1] if said else ''}", flush=True)
    sys.exit(bool(problems))


main()
