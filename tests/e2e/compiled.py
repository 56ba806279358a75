# compiled.py -- the small C programs and libraries of the end-to-end tests, compiled once per session.
# SPDX-License-Identifier: Apache-2.0
import atexit
import os
import shutil
import subprocess
import tempfile

import guarded

HERE = os.path.dirname(os.path.abspath(__file__))
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-g", "-fno-omit-frame-pointer", "-Wall", "-Wextra", "-pthread",
         "-I" + os.path.join(guarded.TOP, "tests/sim/include")]
DRIVER = os.path.join(guarded.SIM, "libcuda.so.1")
RUNTIME = os.path.join(guarded.SIM, "libcudart.so.13")
_made, _place = {}, []


def place():
    if not _place:
        _place.append(tempfile.mkdtemp(prefix="vramguard-e2e-"))
        atexit.register(shutil.rmtree, _place[0], ignore_errors=True)
    return _place[0]


def build(source, *flags, libraries=(DRIVER,), name=None):
    """tests/e2e/SOURCE.c as a program (or, with -shared among the flags, a library); its path."""
    key = (source, flags, tuple(libraries), name)
    if key not in _made:
        target = os.path.join(place(), name or f"{source}-{len(_made)}")
        subprocess.run(["gcc", *FLAGS, *flags, os.path.join(HERE, source + ".c"), "-o", target, "-Wl,--no-as-needed", *libraries,
                        "-Wl,-rpath-link," + guarded.SIM], check=True)
        _made[key] = target
    return _made[key]


def library(source, name, *flags, libraries=()):
    return build(source, "-shared", "-fPIC", *flags, libraries=libraries, name=name)
