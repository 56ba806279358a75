#!/usr/bin/env python3
# suite.py -- runs the test runners, adds their counts up, and judges what was skipped.
# SPDX-License-Identifier: Apache-2.0
#
#   suite.py gates|unit|e2e...    these steps, one after the other
#   suite.py check                what `make check` runs
#   suite.py ci                   what `.ci/run` runs; a skip whose reason is not in skips.txt is an error there
#
# The last line is `N passed, N failed, N skipped`. A step that ends non-zero without a failed test counts as one failure.
import os
import re
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.environ.get("BUILD", "build")
MAKE = ["make", "--no-print-directory", "-j2"]
ASAN = ["BUILD=build-asan", "OPT=-O1 -g", "SANITIZE=-fsanitize=address,undefined -fno-sanitize-recover=all"]


def pytest_python():
    """The python that tests run with: the machine's default, or Debian's own where only that has pytest."""
    for python in ("python3", "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import pytest"], capture_output=True).returncode == 0:
            return python
    return "python3"


def steps():
    """name -> command. `ci` runs those of its list in this order."""
    return {
        "gates": ["bash", "tools/check/gates.sh"],
        "unit": MAKE + ["unit"],
        "e2e": [pytest_python(), "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "tests/e2e"],
        "make check": MAKE + ["check"],
        "clang, unit": MAKE + ["BUILD=build-clang", "CC=clang", "all", "unit"],
        "clang, e2e": MAKE + ["BUILD=build-clang", "CC=clang", "e2e"],
        "asan+ubsan, gcc": MAKE + ASAN + ["unit"],
        "asan+ubsan, clang": MAKE + ["BUILD=build-asan-clang", "CC=clang"] + ASAN[1:] + ["unit"],
        "fuzz smoke": MAKE + ASAN + ["FUZZ_SECONDS=30", "fuzz-smoke"],
        "aarch64": ["bash", "tools/check/aarch64.sh"],
        "bench": MAKE + ["bench"],
    }


CHECK = ["gates", "unit", "e2e"]
CI = ["make check", "clang, unit", "clang, e2e", "asan+ubsan, gcc", "asan+ubsan, clang", "fuzz smoke", "aarch64", "bench"]

TOTAL = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$")
CMOCKA = re.compile(r"^\[  (PASSED|FAILED|SKIPPED)\s*\] (\d+) test\(s\)")
PYTEST = re.compile(r"^=*\s*((?:\d+ [a-z]+(?:, )?)+) in [\d.]+s")
GATE = re.compile(r"^gate [\w-]+: (passed|FAILED|skipped)")
WORDS = {"passed": 0, "xpassed": 1, "failed": 1, "error": 1, "errors": 1, "skipped": 2, "xfailed": 2}


def count(lines):
    """[passed, failed, skipped] of any mix of runners; a runner's own total replaces what came before it."""
    sums = [0, 0, 0]
    for line in lines:
        if found := TOTAL.match(line):
            sums = [int(number or 0) for number in found.groups()]
        elif found := CMOCKA.match(line):
            sums[{"PASSED": 0, "FAILED": 1, "SKIPPED": 2}[found[1]]] += int(found[2])
        elif found := GATE.match(line):
            sums[{"passed": 0, "FAILED": 1, "skipped": 2}[found[1]]] += 1
        elif found := PYTEST.match(line):
            for number, word in re.findall(r"(\d+) ([a-z]+)", found[1]):
                if word in WORDS:
                    sums[WORDS[word]] += int(number)
    return sums


def skip_reasons(lines):
    """Every `SKIPPED [n] place: reason` of pytest -rs, `gate x: skipped: reason`, and `skip: reason` of a C test."""
    reasons = []
    for line in lines:
        found = (re.match(r"^SKIPPED \[\d+\] (\S+): (.*)", line) or re.match(r"^(gate [\w-]+): skipped: (.*)", line)
                 or re.match(r"^(skip): (.*)", line))
        if found:
            reasons.append((found[1], found[2]))
    return reasons


def is_allowed(reason):
    with open(os.path.join(TOP, "tools/check/skips.txt")) as file:
        prefixes = [line.rstrip("\n") for line in file if line.strip() and not line.startswith("#")]
    return any(reason.startswith(prefix) for prefix in prefixes)


def share_torch(build):
    """Another build directory gets the one Python environment that was set up."""
    os.makedirs(os.path.join(TOP, build), exist_ok=True)
    for name in ("venv", "torch.state", "venv-clients", "clients.state"):
        link, target = os.path.join(TOP, build, name), os.path.join(TOP, "build", name)
        if os.path.exists(target) and not os.path.lexists(link):
            os.symlink(target, link)


def run(name, command):
    print(f"--- {name}: {' '.join(command)}", flush=True)
    begin = time.monotonic()
    try:
        process = subprocess.Popen(command, cwd=TOP, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True, errors="replace")
    except OSError as error:
        print(f"{name}: {error}")
        return [0, 1, 0], []
    lines = []
    for line in process.stdout:
        sys.stdout.write(line)
        sys.stdout.flush()
        lines.append(line.rstrip("\n"))
    status = process.wait()
    sums = count(lines)
    if status == 0 and sums[1]:
        print(f"{name}: ended 0 although {sums[1]} failed")
    if status != 0 and sums[1] == 0:
        sums[1] = 1
        print(f"{name}: FAILED with status {status}")
    print(f"--- {name}: {sums[0]} passed, {sums[1]} failed, {sums[2]} skipped, {time.monotonic() - begin:.0f} s", flush=True)
    return sums, skip_reasons(lines)


def main():
    wanted = sys.argv[1:] or ["check"]
    strict = wanted == ["ci"]
    names = [name for word in wanted for name in {"check": CHECK, "ci": CI}.get(word, [word])]
    table = steps()
    os.environ.setdefault("BUILD", BUILD)
    if strict:
        os.environ.pop("BUILD", None)
        share_torch("build-clang")
    total, reasons = [0, 0, 0], []
    for name in names:
        if name not in table:
            sys.exit(f"suite.py: no step called {name}; there are: {', '.join(table)}, check, ci")
        sums, skipped = run(name, table[name])
        total = [a + b for a, b in zip(total, sums)]
        reasons += skipped
    bad = sorted({(place, reason) for place, reason in reasons if not is_allowed(reason)})
    if reasons:
        print("skipped:")
        for place, reason in reasons:
            print(f"  {place}: {reason}")
    for place, reason in bad:
        print(f"no allowed reason to skip (tools/check/skips.txt): {place}: {reason}")
    if strict:
        total[1] += len(bad)
    print(f"{total[0]} passed, {total[1]} failed, {total[2]} skipped")
    sys.exit(1 if total[1] or not total[0] else 0)


if __name__ == "__main__":
    main()
