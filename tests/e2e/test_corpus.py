# test_corpus.py -- the programs of these tests, each three times: without the guard, with it, and with it and report=none.
# SPDX-License-Identifier: Apache-2.0
#
# stdout and status are the same in all three, stderr in the first and the last, byte for byte but for addresses and process numbers.
import os
import re

import pytest

import compiled
import guarded
from guarded import EXAMPLES, TOP

SIMULATED = {"memory": "4GiB", "VGSIM_OTHER": "991:Xorg:512MiB"}
PROGRAMS = {
    "leak": lambda: [os.path.join(EXAMPLES, "leak"), "20"],
    "oom": lambda: [os.path.join(EXAMPLES, "oom")],
    "driver_oom": lambda: [os.path.join(EXAMPLES, "driver_oom")],
    "ctypes": lambda: [guarded.PYTHON, os.path.join(TOP, "examples/ctypes_oom.py")],
    "faults": lambda: [compiled.build("case_faults")],
    "frees": lambda: [compiled.build("case_frees")],
    "crowd": lambda: [compiled.build("case_crowd"), "8", "4", "200"],
    "train": lambda: torch_program("examples/train.py", "--steps", "3"),
    "train that does not fit": lambda: torch_program("examples/train.py", "--batch", "8192"),
}


def torch_program(path, *arguments):
    guarded.need_torch()
    return [guarded.TORCH_PYTHON, os.path.join(TOP, path), *arguments]


def plain(text):
    return re.sub(rb"Process \d+", b"Process N", re.sub(rb"0x[0-9a-f]+", b"0x", text))


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_is_what_it_is_without_the_guard(name, tmp_path):
    command, runs = PROGRAMS[name](), {}
    for kind, options in {"plain": {"guard": False}, "watched": {}, "silent": {"VRAMGUARD_REPORT": "none"}}.items():
        directory = tmp_path / kind
        directory.mkdir()
        runs[kind] = guarded.run(command, directory, binary=True, **SIMULATED, **options)
    first = runs["plain"]
    for other in (runs["watched"], runs["silent"]):
        assert (other.returncode, plain(other.stdout)) == (first.returncode, plain(first.stdout))
    assert plain(runs["silent"].stderr) == plain(first.stderr)
    left = re.sub(rb"(?ms)^VRAMGuard: .*?^VRAMGuard: [^\n]*\n", b"", runs["watched"].stderr)
    assert plain(left) == plain(first.stderr)
