# device_rows.py -- the rows of device.sh: each runs a program without the guard and with it, and compares the report with what the program says.
# SPDX-License-Identifier: Apache-2.0
#
#   device_rows.py [WORD]      only rows whose name contains WORD
#
# A row is a function that returns (expected, seen) as short texts; equal is ok. One that cannot run here raises Skip with the reason.
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(TOP, "tests/e2e"), os.path.join(TOP, "tools/check")]
import compiled  # noqa: E402
import guarded  # noqa: E402
import hooks_table  # noqa: E402
import steps  # noqa: E402

SIMULATED = bool(os.environ.get("SIM"))
MIB = 1 << 20
GIB = 1 << 30
CASES = os.path.join(compiled.HERE, "cases_program.py")
QUIET = {"VRAMGUARD_KEEP": "always", "VRAMGUARD_REPORT": "none"}


class Skip(Exception):
    pass


def toolkit():
    """Where the compiler and the runtime of this machine are; None on the simulation."""
    nvcc = shutil.which("nvcc")
    if SIMULATED:
        return None
    if not nvcc:
        raise Skip("no nvcc")
    return os.path.dirname(os.path.dirname(os.path.realpath(nvcc)))


def libraries():
    """{way: what a program is linked with}."""
    if SIMULATED:
        static = os.path.join(guarded.SIM, "libcudart_static.a")
        return {"driver": (compiled.DRIVER,), "shared": (compiled.RUNTIME,), "static": (static, "-ldl", "-lpthread")}
    place = os.path.join(toolkit(), "lib64")
    return {"driver": ("-L" + os.path.join(place, "stubs"), "-lcuda"), "shared": ("-L" + place, "-lcudart"),
            "static": (os.path.join(place, "libcudart_static.a"), "-ldl", "-lpthread", "-lrt")}


def options(**more):
    """The environment of a program: the simulation is found by name, as the real driver is."""
    if SIMULATED:
        return {"sim": False, "LD_LIBRARY_PATH": guarded.SIM, "VGSIM_MEMORY": "24GiB", **more}
    paths = [os.path.join(toolkit(), "lib64"), os.environ.get("LD_LIBRARY_PATH", "")]
    return {"sim": False, "LD_LIBRARY_PATH": ":".join(p for p in paths if p), **more}


def program(source, way, *flags, folder=compiled.HERE):
    if not SIMULATED:
        compiled.FLAGS[-1] = "-I" + os.path.join(toolkit(), "include")
    return compiled.build(os.path.join(folder, source), *flags, libraries=libraries()[way], name=f"{source}-{way}-{len(flags)}")


def place():
    return tempfile.mkdtemp(prefix="vramguard-device-", dir=WORK)


def text(kinds):
    return " ".join(f"{kind}={kinds[kind]}" for kind in sorted(kinds)) or "nothing"


# --- kinds ----------------------------------------------------------------------------------------


def told_kinds(lines):
    sums = {}
    for line in lines:
        if line.startswith("bytes "):
            _, _, kind, number = line.split()
            sums[kind] = sums.get(kind, 0) + int(number)
    return sums


def adds_up(report):
    known = [device for device in report["devices"] if device["free_bytes"] is not None]
    return all(guarded.balance_sum(device) == device["total_bytes"] for device in known)


def kinds_of(command):
    """Bytes of every kind that the program tells; an array's are the driver's own affair, but there have to be some."""
    plain = steps.walk(command, place(), guard=False, **options())
    watched = steps.walk(command, place(), **options(**QUIET))
    told, made = told_kinds(watched.lines), steps.by_kind(watched.report["made"])
    arrays = [kind for kind in ("array", "mipmap") if made.get(kind, 0) > 0]
    seen = {kind: bytes_ for kind, bytes_ in made.items() if kind in told}
    return (f"{text(told)}; then nothing; adds up, same output",
            f"{text(seen)}; then {text(steps.by_kind(watched.report['freed']))}; "
            f"{'adds up' if adds_up(watched.report['made']) else 'does not add up'}, "
            f"{'same' if plain.lines == watched.lines else 'other'} output", f"with {' and '.join(arrays) or 'no arrays'}")


PER_THREAD = "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"


def kinds_rows():
    for mode in ("plain", "capture"):
        for stream, flags in (("", ()), (", per-thread stream", (PER_THREAD,))):
            yield f"kinds: driver API{stream}, {mode}", lambda m=mode, f=flags: kinds_of([program("case_kinds", "driver", *f), m])
            for way in ("shared", "static"):
                yield (f"kinds: {way} runtime{stream}, {mode}",
                       lambda m=mode, f=flags, w=way: kinds_of([program("case_runtime_kinds", w, *f), m]))
    yield "kinds: ctypes", lambda: kinds_of([sys.executable, os.path.join(compiled.HERE, "kinds_ctypes.py")])
    yield "kinds: nvcc's default", by_nvcc


def by_nvcc():
    if SIMULATED:
        raise Skip("a real runtime only")
    target = os.path.join(WORK, "by-nvcc")
    subprocess.run(["nvcc", "-x", "c", "-o", target, os.path.join(compiled.HERE, "case_runtime_kinds.c")], check=True)
    return kinds_of([target, "plain"])


# --- cases ----------------------------------------------------------------------------------------


def case(name):
    command = [sys.executable, CASES, name]
    plain = steps.walk(command, place(), guard=False, **options())
    watched = steps.walk(command, place(), **options(**QUIET))
    said = [line for line in watched.lines if not line.startswith(("live ", "step "))][:-1]
    expected = "; ".join(f"{step}: {text(live)}" for step, live in steps.by_own_count(watched).items())
    seen = "; ".join(f"{step}: {text(steps.by_kind(report))}" for step, report in watched.report.items())
    unchanged = lambda lines: [re.sub(r"^free \d+ total", "total", line) for line in lines]  # others use the device too
    return (expected + "; same answers", seen + ("; same answers" if unchanged(plain.lines) == unchanged(watched.lines) else "; other answers"),
            "driver said: " + ", ".join(said) if said else "")


def case_rows():
    listed = subprocess.run([sys.executable, CASES, "--list"], capture_output=True, text=True, env=guarded.environment(guard=False, **options()),
                            check=False)
    for name in listed.stdout.split():
        if name == "external" and not SIMULATED:
            continue  # needs another interface that exports memory
        if name == "other_device":
            yield "case: other_device", lambda: with_devices(2)
        else:
            yield f"case: {name}", lambda n=name: case(n)


def with_devices(wanted):
    if SIMULATED:
        raise Skip("one device here; the tests have two")
    found = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, check=False).stdout.count("GPU ")
    if found < wanted:
        raise Skip(f"{found} device, needs {wanted}")
    return case("other_device")


# --- look-ups -------------------------------------------------------------------------------------


def spied(command, guard):
    """[(name, version, flags, status, library, symbol)] of every look-up of a process."""
    spy, directory = compiled.library("lookup_spy", "libspy.so"), place()
    log = os.path.join(directory, "log")
    env = guarded.environment(guard=False, **options(SPY_LOG=log, LD_PRELOAD=":".join([spy] + [guarded.LIBRARY] * guard)))
    subprocess.run([str(c) for c in command], env=env, cwd=directory, input="\n" * 9, capture_output=True, text=True, timeout=60, check=False)
    with open(log, encoding="utf-8") as file:
        return [tuple(line.split()) for line in file]


def look_ups(command):
    hooked = hooks_table.exported_symbols()
    plain, watched = spied(command, 0), spied(command, 1)
    ours = wrong = 0
    for before, after in zip(plain, watched):
        if before[5] in hooked:
            ours += 1
            wrong += after[4] != "libvramguard.so" or before[:4] != after[:4]
        else:
            wrong += before != after
    inside = sum(row[3] == "0" and row[5] == "-" and row[0] != "''" for row in plain)
    return (f"{len(plain)} look-ups, {ours} hooked ones ours, 0 wrong", f"{len(watched)} look-ups, {ours} hooked ones ours, {wrong} wrong",
            f"{inside} answers are no export's address")


def runtime_library():
    if SIMULATED:
        return compiled.RUNTIME
    return os.path.join(toolkit(), "lib64/libcudart.so.13")


def lookup_rows():
    yield "look-ups: shared runtime", lambda: look_ups([program("lookup_program", "shared"), "count", runtime_library()])
    yield "look-ups: static runtime", lambda: look_ups([program("case_runtime_kinds", "static"), "plain"])


# --- frees and out of memory ----------------------------------------------------------------------


def frees():
    command, directory = [program("case_frees", "driver")], place()
    plain = guarded.run(command, place(), guard=False, **options())
    watched = guarded.run(command, directory, **options(**QUIET))
    [record] = guarded.records(directory)
    report = guarded.report_of(record, "--now")
    return (f"device={7 * MIB}, 5 unknown frees, same output",
            f"{text(steps.by_kind(report))}, {report['hooks']['unknown_free_count']} unknown frees, "
            f"{'same' if plain.stdout == watched.stdout else 'other'} output", re.sub(r"\n", ", ", watched.stdout.strip()))


def out_of_memory(command, line, **more):
    """Status and last line as without the guard; one report that adds up and names a place in the program."""
    directory = place()
    plain = guarded.run(command, place(), guard=False, **options(**more))
    watched = guarded.run(command, directory, **options(**more))
    reports = guarded.written(directory, "oom")
    report = reports[0] if reports else None
    places = [frame["function"] for frame in (report["failure"]["stack"] if report else []) if frame["function"]]
    return (f"status {plain.returncode}, 1 report, adds up, names {line}",
            f"status {watched.returncode}, {len(reports)} report, {'adds up' if report and adds_up(report) else 'does not add up'}, "
            f"names {line if line in places else places[:4]}",
            report and f"{report['failure']['api']} of {report['failure']['bytes'] // MIB} MiB, verdict {report['verdict']['class']}")


def oom_rows():
    examples = os.path.join(TOP, "examples")
    yield "out of memory: shared runtime", lambda: out_of_memory([program("oom", "shared", folder=examples)], "ask_for_more")
    yield "out of memory: static runtime", lambda: out_of_memory([program("oom", "static", folder=examples)], "ask_for_more")
    yield "out of memory: driver API", lambda: out_of_memory([program("driver_oom", "driver", folder=examples)], "main")
    yield "out of memory: ctypes", lambda: out_of_memory([sys.executable, os.path.join(examples, "ctypes_oom.py")], "grow")


# --- torch ----------------------------------------------------------------------------------------


def torch_python():
    for python in (guarded.TORCH_PYTHON, sys.executable, shutil.which("python3"), shutil.which("python")):
        if python and subprocess.run([python, "-c", "import torch"], capture_output=True, check=False).returncode == 0:
            return python
    raise Skip("no torch here")


def torch_options(**more):
    """On the simulation torch finds its libraries beside itself, so that ours are preloaded."""
    return {"memory": "24GiB", **more} if SIMULATED else options(**more)


def total_bytes():
    if SIMULATED:
        return 24 * GIB
    out = subprocess.run(["nvidia-smi", "--query-gpu=memory.total", "--format=csv,noheader,nounits"], capture_output=True, text=True, check=True)
    return int(out.stdout.split()[0]) * MIB


def train():
    directory, python = place(), torch_python()
    batch = 4096 * -(-total_bytes() // (24 * GIB))
    done = guarded.run([python, os.path.join(TOP, "examples/train.py"), "--batch", batch], directory, timeout=200, **torch_options())
    reports = guarded.written(directory, "oom")
    report = reports[0] if reports else {"devices": [], "failure": {"stack": []}, "verdict": {"class": None}}
    names = [frame["function"] for frame in report["failure"]["stack"] if frame["lang"] == "python"]
    fails = re.findall(r'train\.py", line \d+, in (\w+)', done.stderr)[-1:]
    framework = [device["process"]["framework"] for device in report["devices"]]
    said = re.search(r"Of the allocated memory ([\d.]+) GiB is allocated by PyTorch, and ([\d.]+) (MiB|GiB) is reserved", done.stderr)
    allocated = framework[0]["allocated_bytes"] / GIB if framework and framework[0] else -1
    close = bool(said) and abs(allocated - float(said[1])) < 0.01
    return (f"status 1, OutOfMemoryError, 1 report, adds up, names {fails}, torch's own figure",
            f"status {done.returncode}, {'OutOfMemoryError' if 'torch.OutOfMemoryError' in done.stderr else 'no error'}, {len(reports)} report, "
            f"{'adds up' if adds_up(report) else 'does not add up'}, names {names[:1]}, {'torch’s own' if close else 'another'} figure"
            .replace("’", "'"),
            f"batch {batch}, torch says {said and said[1]} GiB, report {allocated:.2f}, verdict {report['verdict']['class']}")


SEGMENTS = """
import sys, torch
blocks = [torch.empty(n * 7 << 20, dtype=torch.uint8, device="cuda") for n in range(1, 9)]
del blocks[::2]
print("reserved", torch.cuda.memory_reserved(), "allocated", torch.cuda.memory_allocated())
print("step full", flush=True)
sys.stdin.readline()
"""


def segments(kind, setting):
    walked = steps.walk([torch_python(), "-c", SEGMENTS], place(), **torch_options(PYTORCH_CUDA_ALLOC_CONF=setting, PYTORCH_ALLOC_CONF=setting, **QUIET))
    _, reserved, _, allocated = [line for line in walked.lines if line.startswith("reserved")][0].split()
    process = walked.report["full"]["devices"][0]["process"]
    return (f"reserved {reserved}, allocated {allocated}, {kind}={reserved}",
            f"reserved {process['framework']['reserved_bytes']}, allocated {process['framework']['allocated_bytes']}, "
            f"{kind}={process['by_kind'].get(kind, 0)}")


def torch_rows():
    yield "torch: training into an out of memory", train
    yield "torch: segments of cuMemAlloc", lambda: segments("device", "expandable_segments:False")
    yield "torch: expandable segments", lambda: segments("vmm", "expandable_segments:True")


# --- the table ------------------------------------------------------------------------------------


def rows():
    yield from lookup_rows()
    yield from kinds_rows()
    yield from case_rows()
    yield "frees: wrong ones", frees
    yield from oom_rows()
    yield from torch_rows()


def run(row):
    """(expected, seen, remark, verdict)"""
    try:
        expected, seen, *remark = row()
        return expected, seen, (remark or [""])[0] or "", "ok" if expected == seen else "NOT OK"
    except Skip as reason:
        return "", "", str(reason), "skipped"
    except Exception as error:  # a row that breaks is a finding, and the others go on
        detail = getattr(error, "stderr", None) or str(error)
        return "it runs", f"{type(error).__name__}: {str(detail)[-600:]}", "", "NOT OK"


def main():
    word, counts, begin = (sys.argv[1:] or [""])[0], {"ok": 0, "NOT OK": 0, "skipped": 0}, time.monotonic()
    for name, row in rows():
        if word not in name:
            continue
        started = time.monotonic()
        expected, seen, remark, verdict = run(row)
        counts[verdict] += 1
        print(f"{verdict:8} {name:45} {time.monotonic() - started:5.1f} s  {remark}")
        if verdict != "skipped":
            print(f"    expected  {expected}\n    seen      {seen}", flush=True)
    print(f"{sum(counts.values())} rows: {counts['ok']} ok, {counts['NOT OK']} not ok, {counts['skipped']} skipped, "
          f"{time.monotonic() - begin:.0f} s, on {'the simulation' if SIMULATED else 'a real device'}")
    return 1 if counts["NOT OK"] or not counts["ok"] else 0


with tempfile.TemporaryDirectory(prefix="vramguard-device-") as WORK:
    sys.exit(main())
