# test_python_frames.py -- the raw walk of Python frames against every interpreter of this machine.
# SPDX-License-Identifier: Apache-2.0
#
# pyframes_cases.py runs inside each interpreter, with the walk as a library; pyframes_host.c embeds one.
"""End-to-end tests of interpose/python_frames.c, python_lines.c and python_probe.c."""

import ast
import glob
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
HERE = ROOT / "tests/e2e"
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O2", "-g", "-fno-omit-frame-pointer", "-pthread"]
KNOWN = [f"3.{minor}" for minor in range(8, 16)]
REFUSED = ["2.7", "3.6", "3.7"]
ABSENT, OK, REFUSED_STATE = range(3)
CASES = re.findall(r"^@case\ndef (\w+)", "".join((HERE / f"pyframes_{n}.py").read_text() for n in ("cases", "keys")), re.M)
ASK = """
import platform, sys, sysconfig
print([sys.executable, "%d.%d" % sys.version_info[:2], platform.python_version(), platform.python_implementation(),
       sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("INSTSONAME"), getattr(sys, "base_prefix", sys.prefix)])
"""
REFUSAL = """
import ctypes, sys
p = ctypes.CDLL(sys.argv[1])
p.pyframes_capture.restype = p.pyframes_version.restype = ctypes.c_char_p
print([p.pyframes_state(), p.pyframes_capture(100).decode(), p.pyframes_version().decode()])
"""


def candidates():
    """Pythons in PATH and in pyenv, whichever of its versions is switched on."""
    for folder in os.environ.get("PATH", "").split(os.pathsep) + ["/usr/bin", "/usr/local/bin"]:
        yield from (name for name in sorted(glob.glob(f"{folder}/python*")) if re.search(r"/python[\d.]*$", name))
    root = os.environ.get("PYENV_ROOT")
    if not root and shutil.which("pyenv"):
        root = subprocess.run(["pyenv", "root"], capture_output=True, text=True).stdout.strip()
    yield from sorted(glob.glob(f"{root or os.path.expanduser('~/.pyenv')}/versions/*/bin/python"))


def find_interpreters():
    found = {}
    for path in candidates():
        try:
            done = subprocess.run([path, "-c", ASK], capture_output=True, text=True, timeout=20)
            executable, minor, *rest = ast.literal_eval(done.stdout.strip())
        except (OSError, SyntaxError, ValueError, subprocess.TimeoutExpired):
            continue
        if rest[1] == "CPython":
            found.setdefault(os.path.realpath(executable), (minor, *rest))
    return found


FOUND = find_interpreters()


def interpreters(minors):
    """One parameter per interpreter, and one, skipped, per version that there is none of."""
    found = []
    for minor in minors:
        here = [(path, about) for path, about in FOUND.items() if about[0] == minor]
        found += [pytest.param((path, *about), id=about[1]) for path, about in here]
        if not here:
            found.append(pytest.param(None, id=minor, marks=pytest.mark.skip(reason=f"no interpreter: CPython {minor}")))
    return found


def compile_c(flags, sources, target, root=ROOT):
    compiler = os.environ.get("CC", "gcc").split()
    subprocess.run([*compiler, *FLAGS, f"-I{root}", *flags, *map(str, sources), "-o", str(target), "-ldl"], check=True)
    return str(target)


def build_probe(target, root=ROOT):
    return compile_c(["-shared", "-fPIC", "-fvisibility=hidden"],
                     [HERE / "pyframes_probe.c", *sorted((root / "interpose").glob("python_*.c"))], target, root)


@pytest.fixture(scope="module")
def probe(tmp_path_factory):
    return build_probe(tmp_path_factory.mktemp("probe") / "probe.so")


def run(command, **environment):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300,
                          env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **environment})


@pytest.fixture(scope="module")
def results(probe):
    known = {}

    def of(python):
        if python not in known:
            done = run([python, HERE / "pyframes_cases.py", probe])
            assert done.returncode == 0, done.stderr
            known[python] = json.loads(done.stdout)
        return known[python]
    return of


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("python", interpreters(KNOWN))
def test_frames_are_the_interpreters_own(results, python, name):
    assert results(python[0])["cases"][name] == []


@pytest.mark.parametrize("python", interpreters(KNOWN))
def test_interpreter_is_known(results, python):
    seen = results(python[0])
    assert (seen["state"], seen["version"]) == (OK, python[2])
    assert seen["captures"] > 1000
    print(f"{python[2]}: {seen['walk_ns']:.0f} ns for 20 frames, {seen['text_ns']:.0f} ns for their texts")
    assert seen["walk_ns"] < 5000


@pytest.mark.parametrize("python", interpreters(REFUSED))
def test_unknown_version_is_refused(probe, python):
    done = run([python[0], "-c", REFUSAL, probe])
    assert done.returncode == 0, done.stderr
    state, frames, version = ast.literal_eval(done.stdout.replace("u'", "'"))
    assert (state, frames, version) == (REFUSED_STATE, "0\x1f0\x1e", python[2])


TYPES = ["code", "frame", "str", "bytes", "type"]


@pytest.fixture(scope="module", params=TYPES)
def other_probe(request, tmp_path_factory):
    """A probe whose table has another size for one of the types, in every row."""
    tree = tmp_path_factory.mktemp(request.param)
    shutil.copytree(ROOT / "interpose", tree / "interpose")
    table = tree / "interpose/python_layout.def"
    before = r"\d+, " * TYPES.index(request.param)
    text, rows = re.subn(rf"^(PYTHON_LAYOUT.*SIZES\({before})(\d+)", r"\g<1>1\2", table.read_text(), flags=re.M)
    assert rows >= len(KNOWN)
    table.write_text(text)
    return build_probe(tree / "probe.so", tree)


@pytest.mark.parametrize("python", interpreters(KNOWN))
def test_a_type_of_another_size_is_refused(other_probe, python):
    done = run([python[0], "-c", REFUSAL, other_probe])
    assert done.returncode == 0, done.stderr
    assert ast.literal_eval(done.stdout) == [REFUSED_STATE, "0\x1f0\x1e", python[2]]


@pytest.mark.parametrize("python", interpreters(KNOWN))
def test_a_python_opened_later_and_local_is_found(probe, tmp_path, python):
    library = Path(python[4] or "", python[5] or "")
    if not re.search(r"\.so", library.name) or not library.exists():
        pytest.skip(f"no interpreter: CPython {python[2]} as a shared library")
    host = compile_c([], [HERE / "pyframes_host.c"], tmp_path / "host")
    done = run([host, probe, library], PYTHONHOME=python[6])
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stdout + done.stderr
