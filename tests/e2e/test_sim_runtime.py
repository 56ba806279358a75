# test_sim_runtime.py -- the builds of the simulated runtime (12, 13, static, per-thread default stream) do the same, by the simulation's own books.
# SPDX-License-Identifier: Apache-2.0
import os
import re
import subprocess

import pytest

import compiled
import guarded
from guarded import MIB, SIM

STATIC = (os.path.join(SIM, "libcudart_static.a"), "-ldl", "-lpthread")
WAYS = {
    "13": ((), (compiled.RUNTIME,)),
    "12": (("-DCUDART_VERSION=12080",), (os.path.join(SIM, "libcudart.so.12"),)),
    "static": ((), STATIC),
    "per-thread-13": (("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), (compiled.RUNTIME,)),
    "per-thread-12": (("-DCUDART_VERSION=12080", "-DCUDA_API_PER_THREAD_DEFAULT_STREAM"), (os.path.join(SIM, "libcudart.so.12"),)),
    "per-thread-static": (("-DCUDA_API_PER_THREAD_DEFAULT_STREAM",), STATIC),
}


def program(way):
    flags, libraries = WAYS[way]
    return compiled.build("sim_runtime", *flags, libraries=libraries)


def environment(**variables):
    """Nothing preloaded: a program finds what it is linked to."""
    return guarded.environment(guard=False, sim=False, LD_LIBRARY_PATH=SIM, VGSIM_MEMORY="1GiB", **variables)


def walk(way, directory, at_step=None, **variables):
    """Runs the program step by step; its lines, and the books at each step."""
    books, lines = {}, []
    env = environment(VGSIM_ACCOUNT=os.path.join(directory, "books"), **variables)
    with subprocess.Popen([program(way)], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            lines.append(line.rstrip("\n"))
            if line.startswith("step "):
                name = line.split()[1]
                books[name] = guarded.account(os.path.join(directory, "books"))[0]
                if at_step:
                    at_step(name, books[name])
                process.stdin.write("\n")
                process.stdin.flush()
    assert process.returncode == 0, lines
    return lines, books


def live(books):
    return {kind: entry["requested_bytes"] for kind, entry in books["kinds"].items() if entry["requested_bytes"]}


@pytest.mark.parametrize("way", WAYS)
def test_every_build_allocates_the_same(way, tmp_path):
    lines, books = walk(way, tmp_path)
    assert lines[0] == "warp 32, memory 1024, major 9, processors 132, clusters 1"
    pitch = int(re.search(r"bytes 7 8, pitch (\d+)", "\n".join(lines)).group(1))
    assert live(books["plain"]) == {"device": 1000003 + 10 * pitch, "managed": 5000, "pinned": 7000, "registered": 4096}
    assert live(books["pool"]) == {"pool": 5000002}
    deep, mipmap = map(int, re.search(r"needs (\d+) (\d+)", "\n".join(lines)).groups())
    assert "array 32 32 0 2, 64 32 4, 0" in lines and deep >= 64 * 32 * 8 * 4 and mipmap > deep
    assert live(books["array"]).keys() == {"array", "mipmap"} and live(books["array"])["mipmap"] == mipmap
    assert 64 * 32 * 8 <= live(books["array"])["array"] - deep <= deep  # the flat one
    assert "capture 1, nodes 2" in lines and "reserved after the trim 0" in lines
    assert live(books["graph-made"]) == {} and live(books["graph-launched"]) == {"graph": 4000001}
    for step in ("plain-freed", "pool-freed", "array-freed", "graph-freed", "reset"):
        assert live(books[step]) == {}, step
    assert books["reset"]["free_bytes"] == 1024 * MIB and books["reset"]["contexts"] == 0
    assert lines[-1] == "runtime " + ("12" if "12" in way else "13")


@pytest.mark.parametrize("way", WAYS)
def test_the_guard_sees_every_build_as_the_books_do(way, tmp_path):
    """On a driver that tells the size of any array: by the interface it does so only of those that are mapped later."""
    steps = []

    def compare(name, books):
        [record] = guarded.records(tmp_path)
        by_kind = guarded.report_of(record)["devices"][0]["process"]["by_kind"]
        assert {kind: size for kind, size in by_kind.items() if size} == live(books), name
        steps.append(name)

    walk(way, tmp_path, at_step=compare, LD_PRELOAD=guarded.LIBRARY, VGSIM_ARRAY_SIZE="any", VRAMGUARD_DIR=str(tmp_path))
    assert len(steps) == 10


def undefined(way):
    out = subprocess.run(["nm", "-D", "--undefined-only", program(way)], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" U (\w+)", out))


@pytest.mark.parametrize("way", ["13", "12", "per-thread-13", "per-thread-12"])
def test_programs_ask_for_the_versioned_names_of_their_stream(way):
    out = subprocess.run(["nm", "-D", "--undefined-only", program(way)], capture_output=True, text=True, check=True).stdout
    version = "libcudart.so." + way[-2:]
    wanted = {"cudaMalloc", "cudaMallocAsync_ptsz" if "per" in way else "cudaMallocAsync", "cudaMemcpy_ptds" if "per" in way else "cudaMemcpy"}
    found = set(re.findall(rf" U (cuda\w+)@{re.escape(version)}", out))
    assert wanted <= found
    assert all(name.endswith(("_ptsz", "_ptds")) == ("per" in way) for name in found if re.match(r"cuda(Mem(cpy|set)|GraphLaunch|\w*Async)", name))


@pytest.mark.parametrize("way", ["static", "per-thread-static"])
def test_a_static_program_needs_and_shows_nothing_of_cuda(way):
    """As with NVIDIA's: no CUDA library is needed, no cuda name is exported, and the driver is found by dlopen and dlsym."""
    needed = subprocess.run(["objdump", "-p", program(way)], capture_output=True, text=True, check=True).stdout
    assert not re.search(r"NEEDED\s+libcuda", needed)
    names = subprocess.run(["nm", "-D", program(way)], capture_output=True, text=True, check=True).stdout
    assert not re.search(r" _*(cuda|rt_)\w", names)
    assert {"dlopen", "dlsym"} <= undefined(way) and "dlvsym" not in names


def test_the_names_inside_the_static_library_are_its_own():
    """A program may have functions of the same names as the runtime's internal ones."""
    out = subprocess.run(["nm", "-g", "--defined-only", STATIC[0]], capture_output=True, text=True, check=True).stdout
    names = re.findall(r" [A-Z] (\w+)", out)
    assert len(names) > 400 and all(re.match(r"(__)?cuda", name) for name in names), names


TWO_RUNTIMES = """
import ctypes, sys
a, b = (ctypes.CDLL(path) for path in sys.argv[1:3])
for runtime in (a, b):
    version, pointer = ctypes.c_int(), ctypes.c_void_p()
    assert runtime.cudaRuntimeGetVersion(ctypes.byref(version)) == 0
    assert runtime.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
    print(version.value)
assert a.cudaFree(pointer) == 0  # of the other runtime: one driver, one context
"""


def test_two_runtimes_live_in_one_process(tmp_path):
    done = subprocess.run([guarded.PYTHON, "-c", TWO_RUNTIMES, os.path.join(SIM, "libcudart.so.12"), compiled.RUNTIME],
                          env=environment(VGSIM_ACCOUNT=str(tmp_path / "books")), capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stdout) == (0, "12080\n13000\n"), done.stderr
    assert guarded.account(str(tmp_path / "books"))[0]["objects"]["contexts"]["created"] == 1


def nvidia_exports():
    for folder in ("/usr/local/cuda/lib64", os.path.join(guarded.BUILD, "venv/lib/python3.11/site-packages/nvidia/cu13/lib")):
        path = os.path.join(folder, "libcudart.so.13")
        if os.path.exists(path):
            return exports(path)
    pytest.skip("no PyPI: NVIDIA's libcudart.so.13 is neither in a toolkit nor in build/venv")


def exports(path):
    out = subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
    return set(re.findall(r" [TW] (cuda\w+)", out))


def test_the_simulation_exports_every_function_of_the_runtime():
    assert exports(compiled.RUNTIME) == nvidia_exports()


def test_what_the_driver_lacks_is_not_supported(tmp_path):
    """And a call without a device says so, with nothing of it left behind."""
    code = ("import ctypes\nr = ctypes.CDLL('libcudart.so.13')\n"
            "print(r.cudaCreateTextureObject(None, None, None, None), r.cudaGetLastError(), r.cudaGetLastError())\n")
    done = subprocess.run([guarded.PYTHON, "-c", code], env=environment(), capture_output=True, text=True, timeout=60, check=False)
    assert done.stdout == "801 801 0\n", done.stderr
