# test_idle.py -- programs that use no GPU memory, or tell the guard to stay off: nothing printed, no file, no thread.
# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import stat
import subprocess
from pathlib import Path

import pytest

import compiled
import guarded
from guarded import PYTHON

COUNT = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
count = ctypes.c_int()
assert not cuda.cuInit(0) and not cuda.cuDeviceGetCount(ctypes.byref(count)) and count.value == 1
print(len(os.listdir("/proc/self/task")), len(os.listdir("/proc/self/fd")))
"""
PROGRAMS = {
    "true": lambda: ["true"],
    "bash": lambda: ["bash", "-c", "(echo sub; true) | cat; ls /proc/$$/task | wc -l; exit 3"],
    "python": lambda: [PYTHON, "-c", "import os; print(len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd')))"],
    "python-that-forks": lambda: [PYTHON, "-c", "import multiprocessing as m; p = m.get_context('fork').Process(target=print, args=(1,)); p.start(); p.join()"],
    "ctypes": lambda: [PYTHON, "-c", COUNT],
    "driver": lambda: [compiled.build("case_count")],
    "runtime": lambda: [compiled.build("case_count", "-DRUNTIME", libraries=[compiled.RUNTIME])],
}


@pytest.fixture
def watched_places(tmp_path):
    """The directories where a record could go: the working directory, $TMPDIR and /tmp."""
    work, tmp = tmp_path / "work", tmp_path / "tmp"
    work.mkdir()
    tmp.mkdir()
    return work, tmp


def assert_left_nothing(work, tmp):
    assert os.listdir(work) == [] and os.listdir(tmp) == []


@pytest.mark.parametrize("name", PROGRAMS)
def test_idle_program_sees_no_guard(name, watched_places):
    work, tmp = watched_places
    plain = guarded.run(PROGRAMS[name](), work, guard=False, TMPDIR=tmp)
    watched = guarded.run(PROGRAMS[name](), work, TMPDIR=tmp, VRAMGUARD_KEEP="always", VRAMGUARD_LOG="debug", VRAMGUARD_NONSENSE="1")
    assert (plain.returncode, plain.stdout, plain.stderr) == (watched.returncode, watched.stdout, watched.stderr)
    assert plain.returncode in (0, 3) and watched.stderr == ""
    assert_left_nothing(work, tmp)


def test_the_same_programs_are_seen_once_they_allocate(watched_places):
    """The test above can see something: one call more, and there is a record and a line."""
    work, tmp = watched_places
    more = COUNT + ("context = ctypes.c_void_p()\nassert not cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)\n"
                    "print(len(os.listdir('/proc/self/task')))\n")
    done = guarded.run([PYTHON, "-c", more], work, TMPDIR=tmp, VRAMGUARD_KEEP="always", VRAMGUARD_NONSENSE="1")
    assert done.returncode == 0 and done.stdout.splitlines()[-1] == "1", "a thread was started"
    assert done.stderr == "VRAMGuard: VRAMGUARD_NONSENSE: no such option, ignored (`vramguard help run` lists them)\n"
    assert len(guarded.records(work)) == 1


def test_enable_0_does_nothing(watched_places):
    work, tmp = watched_places
    program = [compiled.build("case_room"), "nothing", 10]
    plain = guarded.run(program, work, guard=False, TMPDIR=tmp)
    done = guarded.run(program, work, TMPDIR=tmp, VRAMGUARD_ENABLE=0, VRAMGUARD_KEEP="always", VRAMGUARD_NONSENSE="1")
    assert (done.returncode, done.stdout, done.stderr) == (plain.returncode, plain.stdout, plain.stderr) == (3, plain.stdout, "")
    assert_left_nothing(work, tmp)


def secure_program(directory):
    """A program that needs libvramguard itself (the loader drops LD_PRELOAD where it matters), readable for everybody."""
    directory.mkdir(mode=0o755)
    for path in (guarded.LIBRARY, compiled.DRIVER):
        shutil.copy(path, directory)
    built = compiled.build("case_room", f"-Wl,-rpath,{directory}", libraries=[str(directory / "libvramguard.so"), str(directory / "libcuda.so.1")],
                           name="secure")
    return shutil.copy(built, directory / "program")


def test_privileged_program_stays_off():
    """Set-user-ID: whoever starts it chooses environment and directory, so neither may be believed."""
    place = os.path.join(compiled.place(), "privileged")
    shutil.rmtree(place, ignore_errors=True)
    os.chmod(compiled.place(), 0o755)
    program = secure_program(Path(place))
    reports = Path(place) / "reports"
    reports.mkdir()
    reports.chmod(0o1777)

    def run():
        return guarded.run([program, "nothing", 10], reports, guard=False, sim=False, VRAMGUARD_DIR=reports, VRAMGUARD_KEEP="always", TMPDIR=reports)

    done = run()
    assert done.returncode == 3 and "VRAMGuard: out of memory" in done.stderr and os.listdir(reports), done.stderr
    for name in os.listdir(reports):
        os.unlink(reports / name)
    try:
        os.chown(program, 65534, -1)
    except PermissionError:
        pytest.skip("no right: chown")
    os.chmod(program, 0o4755)
    probe = subprocess.run(["findmnt", "-no", "OPTIONS", "-T", program], capture_output=True, text=True, check=False)
    if "nosuid" in probe.stdout or not os.stat(program).st_mode & stat.S_ISUID:
        pytest.skip("no right: set-user-ID programs")
    done = run()
    assert done.returncode == 3 and done.stderr == "" and os.listdir(reports) == []
