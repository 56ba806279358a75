# test_sim_clients.py -- NVIDIA's cuda-bindings and numba-cuda from PyPI on the simulated GPU: their allocations are in its books, byte by byte.
# SPDX-License-Identifier: Apache-2.0
import os
import subprocess

import pytest

import guarded
from guarded import MIB, SIM

CLIENTS = os.path.join(guarded.BUILD, "venv-clients/bin/python")
LIBRARIES = [os.path.join(SIM, name) for name in ("libcudart.so.13", "libcuda.so.1", "libnvidia-ml.so.1")]


@pytest.fixture(scope="module", autouse=True)
def clients_are_there():
    state = os.path.join(guarded.BUILD, "clients.state")
    if os.path.exists(state):
        with open(state, encoding="utf-8") as file:
            reason = file.read().strip()
        if reason != "ready":
            pytest.skip(reason)
    elif not os.path.exists(CLIENTS):
        pytest.skip("no PyPI: build/venv-clients has no cuda-bindings")


def walk(code, directory, guard=False, at_step=None, **variables):
    """Runs Python code in which step(name) stops until the books were read; {name: books}, what it printed."""
    prelude = "def step(name):\n    print('step', name, flush=True)\n    input()\n"
    libraries = ([guarded.LIBRARY] if guard else []) + LIBRARIES
    env = guarded.environment(guard=False, sim=True, memory="1GiB", VGSIM_ACCOUNT=os.path.join(directory, "books"),
                              LD_PRELOAD=":".join(libraries), **variables)
    books, printed = {}, []
    with subprocess.Popen([CLIENTS, "-c", prelude + code], env=env, cwd=directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True) as process:
        for line in process.stdout:
            if line.startswith("step "):
                name = line.split()[1]
                books[name] = guarded.account(os.path.join(directory, "books"))[0]
                if at_step:
                    at_step(name, books[name])
                process.stdin.write("\n")
                process.stdin.flush()
            else:
                printed.append(line.rstrip("\n"))
        errors = process.stderr.read()
    assert process.returncode == 0, errors
    return books, printed


def live(books):
    return {kind: entry["requested_bytes"] for kind, entry in books["kinds"].items() if entry["requested_bytes"]}


BINDINGS = """
from cuda.bindings import driver
def do(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result
    return result[1] if len(result) == 2 else result[1:]
do(driver.cuInit(0))
device = do(driver.cuDeviceGet(0))
context = do(driver.cuCtxCreate(None, 0, device))
stream = do(driver.cuStreamCreate(0))
plain = do(driver.cuMemAlloc(1000003))
pitched, pitch = do(driver.cuMemAllocPitch(1000, 10, 4))
managed = do(driver.cuMemAllocManaged(5000, 1))
pinned = do(driver.cuMemHostAlloc(7000, 0))
pooled = do(driver.cuMemAllocAsync(2000001, stream))
print(pitch)
step("made")
for pointer in (plain, pitched, managed):
    do(driver.cuMemFree(pointer))
do(driver.cuMemFreeHost(pinned))
do(driver.cuMemFreeAsync(pooled, stream))
do(driver.cuStreamSynchronize(stream))
print(driver.cuMemFree(plain)[0].name)
step("freed")
do(driver.cuStreamDestroy(stream))
do(driver.cuCtxDestroy(context))
step("ended")
"""


def test_cuda_bindings_allocates_and_frees(tmp_path):
    books, printed = walk(BINDINGS, tmp_path)
    assert live(books["made"]) == {"device": 1000003 + 10 * int(printed[0]), "managed": 5000, "pinned": 7000, "pool": 2000001}
    assert live(books["freed"]) == {} and printed[1] == "CUDA_ERROR_INVALID_VALUE"
    assert books["ended"]["contexts"] == 0


QUEUE = """
import gc
import numpy
from numba import cuda
context = cuda.current_context()
queue = context.memory_manager.deallocations
array = cuda.device_array(1 << 20, dtype=numpy.float32)
copied = cuda.to_device(numpy.arange(1000, dtype=numpy.int64))
print(copied.copy_to_host()[7], cuda.current_context().get_memory_info().total)
step("made")
del array
gc.collect()
print(len(queue))
step("queued")
with cuda.defer_cleanup():
    for _ in range(12):
        cuda.device_array(1000, dtype=numpy.uint8)
    gc.collect()
    print(len(queue))
    step("deferred")
    queue.clear()
    print(len(queue))
step("left")
queue.clear()
print(len(queue))
step("cleared")
pinned, managed = cuda.pinned_array(100, dtype=numpy.uint8), cuda.managed_array(200, dtype=numpy.uint8)
step("host")
try:
    cuda.device_array(2 << 30, dtype=numpy.uint8)
except cuda.cudadrv.driver.CudaAPIError as error:
    print(str(error).split()[-1])
step("end")
"""


def test_numba_cuda_frees_late_from_its_queue(tmp_path):
    """An array that Python dropped keeps its memory until the queue is emptied: the books, like a guard, see it live."""
    books, printed = walk(QUEUE, tmp_path, NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT="100", NUMBA_CUDA_MAX_PENDING_DEALLOCS_RATIO="0.5")
    both = 4 * MIB + 8000
    assert live(books["made"]) == live(books["queued"]) == {"device": both}
    assert live(books["deferred"]) == live(books["left"]) == {"device": both + 12000}
    assert live(books["cleared"]) == {"device": 8000}
    assert live(books["host"]) == {"device": 8000, "managed": 200, "pinned": 100}
    assert printed[0] == f"7 {1024 * MIB}" and printed[1:5] == ["1", "13", "13", "0"], printed
    assert "OUT_OF_MEMORY" in printed[5], printed


@pytest.mark.parametrize("code,kinds", [(BINDINGS, {"device", "managed", "pinned", "pool"}), (QUEUE, {"device", "managed", "pinned"})],
                         ids=["cuda-bindings", "numba-cuda"])
def test_the_guard_sees_what_the_books_say_at_each_step(code, kinds, tmp_path):
    seen = set()

    def compare(name, books):
        [record] = guarded.records(tmp_path)
        by_kind = guarded.report_of(record)["devices"][0]["process"]["by_kind"]
        assert {kind: size for kind, size in by_kind.items() if size} == live(books), name
        seen.update(live(books))

    walk(code, tmp_path, guard=True, at_step=compare, VRAMGUARD_DIR=str(tmp_path), NUMBA_CUDA_MAX_PENDING_DEALLOCS_COUNT="100",
         NUMBA_CUDA_MAX_PENDING_DEALLOCS_RATIO="0.5")
    assert seen == kinds
