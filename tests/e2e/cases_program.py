# cases_program.py -- what once broke another interposer, each as a few calls of the driver; on the simulation and on a real device.
# SPDX-License-Identifier: Apache-2.0
#
#   python3 cases_program.py SCENARIO
#
# `live {"device": 5}` says which bytes of which kind are live now, by the program's own count; `step NAME` waits for a line on stdin (steps.py).
# Other lines are what the driver said: the same with and without the guard.
import ctypes
import json
import os
import subprocess
import sys
import threading
from ctypes import byref, c_char_p, c_int, c_longlong, c_size_t, c_ubyte, c_uint, c_uint64, c_ulonglong, c_ushort, c_void_p

MIB = 1 << 20
DEVICE, HOST_NUMA, PINNED = 1, 3, 1


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class PoolProps(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("security", c_void_p), ("most", c_size_t), ("usage", c_ushort),
                ("reserved", c_ubyte * 54)]


class AllocationProp(ctypes.Structure):
    _fields_ = [("type", c_int), ("handles", c_int), ("location", Location), ("windows", c_void_p), ("flags", c_ubyte * 8)]


class AllocNode(ctypes.Structure):
    _fields_ = [("pool", PoolProps), ("access", c_void_p), ("accesses", c_size_t), ("bytes", c_size_t), ("address", c_uint64)]


class ExternalMemory(ctypes.Structure):
    _fields_ = [("type", c_int), ("fd", c_longlong), ("name", c_void_p), ("bytes", c_ulonglong), ("flags", c_uint), ("reserved", c_uint * 16)]


class ExternalBuffer(ctypes.Structure):
    _fields_ = [("offset", c_ulonglong), ("bytes", c_ulonglong), ("flags", c_uint), ("reserved", c_uint * 16)]


cuda = ctypes.CDLL("libcuda.so.1")


def must(status):
    if status:
        name = c_char_p()
        cuda.cuGetErrorName(status, byref(name))
        sys.exit(f"line {sys._getframe(1).f_lineno}: {status} {(name.value or b'').decode()}")


def step(name, **live):
    print("live", json.dumps(live))
    print("step", name, flush=True)
    sys.stdin.readline()


def context_of(device):
    context = c_void_p()
    must(cuda.cuDevicePrimaryCtxRetain(byref(context), device))
    return context


def use(device=0):
    must(cuda.cuCtxSetCurrent(context_of(device)))


def take(size):
    address = c_uint64()
    must(cuda.cuMemAlloc_v2(byref(address), c_size_t(size)))
    return address


def new_stream(flags=1):
    stream = c_void_p()
    must(cuda.cuStreamCreate(byref(stream), flags))
    return stream


def new_pool():
    pool, props = c_void_p(), PoolProps(type=PINNED, location=Location(DEVICE, 0))
    must(cuda.cuMemPoolCreate(byref(pool), byref(props)))
    return pool


def granularity(prop):
    size = c_size_t()
    must(cuda.cuMemGetAllocationGranularity(byref(size), byref(prop), 0))
    return size.value


def create(kind=DEVICE, number=0, pieces=1):
    """Memory without an address; (handle, bytes)."""
    handle, prop = c_uint64(), AllocationProp(type=PINNED, location=Location(kind, number))
    size = pieces * granularity(prop)
    status = cuda.cuMemCreate(byref(handle), c_size_t(size), byref(prop), c_ulonglong(0))
    return status, handle, size


def pool():
    """cuMemAllocFromPoolAsync, freed by cuMemFreeAsync and by cuMemFree."""
    use()
    stream, mine = new_stream(), new_pool()
    blocks = [c_uint64() for _ in range(3)]
    for number, block in enumerate(blocks):
        must(cuda.cuMemAllocFromPoolAsync(byref(block), c_size_t((number + 1) * 5 * MIB), mine, stream))
    step("three", pool=30 * MIB)
    must(cuda.cuMemFreeAsync(blocks[0], stream))
    must(cuda.cuStreamSynchronize(stream))
    must(cuda.cuMemFree_v2(blocks[1]))
    step("one", pool=15 * MIB)
    must(cuda.cuMemFreeAsync(blocks[2], stream))
    must(cuda.cuStreamSynchronize(stream))
    must(cuda.cuMemPoolDestroy(mine))
    step("none")


def pool_again():
    """Many times the same block of a pool: never more than one is live."""
    use()
    stream, block = new_stream(), c_uint64()
    for _ in range(200):
        must(cuda.cuMemAllocAsync(byref(block), c_size_t(300 * MIB), stream))
        must(cuda.cuMemFreeAsync(block, stream))
    must(cuda.cuStreamSynchronize(stream))
    step("none")


def graph_free():
    """The memory of a graph's node, freed by address after the launch."""
    use()
    stream, graph, node, executable = new_stream(), c_void_p(), c_void_p(), c_void_p()
    must(cuda.cuGraphCreate(byref(graph), 0))
    params = AllocNode(pool=PoolProps(type=PINNED, location=Location(DEVICE, 0)), bytes=6 * MIB)
    must(cuda.cuGraphAddMemAllocNode(byref(node), graph, None, c_size_t(0), byref(params)))
    must(cuda.cuGraphInstantiateWithFlags(byref(executable), graph, c_ulonglong(0)))
    step("made")
    for times in ("once", "twice"):
        must(cuda.cuGraphLaunch(executable, stream))
        must(cuda.cuStreamSynchronize(stream))
        step("launched " + times, graph=6 * MIB)
        print("free", cuda.cuMemFree_v2(c_uint64(params.address)))
        step("freed " + times)


def null_info():
    """Either half of cuMemGetInfo alone, as a ray tracer asks it."""
    use()
    free, total = c_size_t(), c_size_t()
    print(cuda.cuMemGetInfo_v2(None, byref(total)), total.value > 0, cuda.cuMemGetInfo_v2(byref(free), None), free.value > 0)


def external():
    """Another interface's memory: the mapped buffer is freed as if it were the driver's own. Simulated only: a real one needs that interface."""
    use()
    fd = os.memfd_create("memory")
    os.truncate(fd, 8 * MIB)
    memory, address = c_void_p(), c_uint64()
    must(cuda.cuImportExternalMemory(byref(memory), byref(ExternalMemory(type=1, fd=fd, bytes=8 * MIB))))
    must(cuda.cuExternalMemoryGetMappedBuffer(byref(address), memory, byref(ExternalBuffer(bytes=4 * MIB))))
    step("mapped", external=8 * MIB)
    print("free", cuda.cuMemFree_v2(address))
    step("freed", external=8 * MIB)
    must(cuda.cuDestroyExternalMemory(memory))
    step("none")


def other_device():
    """Freed while another device is current."""
    use(0)
    block = take(9 * MIB)
    use(1)
    other = take(4 * MIB)
    step("two", device=13 * MIB)
    must(cuda.cuMemFree_v2(block))
    step("one", device=4 * MIB)
    must(cuda.cuMemFree_v2(other))
    step("none")


def bare_thread():
    """cuMemCreate on a thread without a context; the device is in its arguments alone."""
    use(0)
    done = []
    worker = threading.Thread(target=lambda: done.append(create(DEVICE, 0, 2)))
    worker.start()
    worker.join()
    status, handle, size = done[0]
    must(status)
    step("made", vmm=size)
    must(cuda.cuMemRelease(handle))
    step("none")


def bare_thread_of_the_last_device():
    """The same, for the last device, and nobody has used that one."""
    use(0)
    count, done = c_int(), []
    must(cuda.cuDeviceGetCount(byref(count)))
    last = count.value - 1
    worker = threading.Thread(target=lambda: done.append(create(DEVICE, last, 3)))
    worker.start()
    worker.join()
    status, handle, size = done[0]
    must(status)
    print("device", last, size)
    step("made", vmm=size)
    must(cuda.cuMemRelease(handle))
    step("none")


def host_numa():
    """cuMemCreate in host memory takes nothing of the device; a driver may refuse it."""
    use()
    status, handle, size = create(HOST_NUMA)
    print("status", status)
    if status == 0:
        step("made", vmm_host=size)
        must(cuda.cuMemRelease(handle))
    step("none")


def mapped_after_release():
    """A handle is gone with its last mapping, not with its release."""
    use()
    status, handle, size = create()
    must(status)
    address = c_uint64()
    must(cuda.cuMemAddressReserve(byref(address), c_size_t(size), c_size_t(0), c_uint64(0), c_ulonglong(0)))
    must(cuda.cuMemMap(address, c_size_t(size), c_size_t(0), handle, c_ulonglong(0)))
    must(cuda.cuMemRelease(handle))
    step("mapped", vmm=size)
    must(cuda.cuMemUnmap(address, c_size_t(size)))
    must(cuda.cuMemAddressFree(address, c_size_t(size)))
    step("none")


def capture():
    """Work, memory and other threads' allocations around a capture of the strictest mode, which must stay valid; cuMemGetInfo is legal in it."""
    use()
    context = context_of(0)
    stream, graph, executable, block = new_stream(), c_void_p(), c_void_p(), c_uint64()
    must(cuda.cuStreamBeginCapture_v2(stream, 0))
    must(cuda.cuMemAllocAsync(byref(block), c_size_t(7 * MIB), stream))
    free, total, host = c_size_t(), c_size_t(), c_void_p()
    print("info", cuda.cuMemGetInfo_v2(byref(free), byref(total)), 0 < free.value < total.value)
    relaxed = []

    def beside():
        mode, address = c_int(2), c_uint64()
        must(cuda.cuCtxSetCurrent(context))
        must(cuda.cuThreadExchangeStreamCaptureMode(byref(mode)))
        relaxed.append((cuda.cuMemAlloc_v2(byref(address), c_size_t(2 * MIB)), address.value))

    worker = threading.Thread(target=beside)
    worker.start()
    worker.join()
    print("beside", relaxed[0][0])
    step("capturing", device=2 * MIB)
    print("end", cuda.cuStreamEndCapture(stream, byref(graph)))
    must(cuda.cuGraphInstantiateWithFlags(byref(executable), graph, c_ulonglong(0)))
    must(cuda.cuGraphLaunch(executable, stream))
    must(cuda.cuStreamSynchronize(stream))
    step("launched", device=2 * MIB, graph=7 * MIB)
    must(cuda.cuMemFree_v2(block))
    must(cuda.cuMemFree_v2(c_uint64(relaxed[0][1])))
    must(cuda.cuMemHostAlloc(byref(host), c_size_t(MIB), 0))
    step("freed", pinned=MIB)
    must(cuda.cuMemFreeHost(host))
    step("none")


def broken_capture():
    """An allocation that a capture forbids breaks it, as without a guard; the next one works."""
    use()
    stream, graph, address = new_stream(), c_void_p(), c_uint64()
    must(cuda.cuStreamBeginCapture_v2(stream, 0))
    print("unsafe", cuda.cuMemAlloc_v2(byref(address), c_size_t(MIB)))
    print("end", cuda.cuStreamEndCapture(stream, byref(graph)))
    must(cuda.cuStreamBeginCapture_v2(stream, 0))
    print("end", cuda.cuStreamEndCapture(stream, byref(graph)))
    take(3 * MIB)
    step("goes on", device=3 * MIB)


def is_managed():
    """What the driver says of managed and of plain memory."""
    use()
    managed, answer = c_uint64(), c_uint()
    must(cuda.cuMemAllocManaged(byref(managed), c_size_t(MIB), 1))
    for block in (managed, take(2 * MIB)):
        must(cuda.cuPointerGetAttribute(byref(answer), 8, block))
        print(answer.value)
    step("both", managed=MIB, device=2 * MIB)


def free_and_total():
    use()
    free, total = c_size_t(), c_size_t()
    block = take(64 * MIB)
    must(cuda.cuMemGetInfo_v2(byref(free), byref(total)))
    print("free", free.value, "total", total.value)
    step("taken", device=64 * MIB)
    must(cuda.cuMemFree_v2(block))


class EventHandle(ctypes.Structure):
    _fields_ = [("bytes", c_ubyte * 64)]


def export_event():
    """The other process of ipc_event."""
    use()
    event, handle = c_void_p(), EventHandle()
    must(cuda.cuEventCreate(byref(event), 6))
    must(cuda.cuIpcGetEventHandle(byref(handle), event))
    print(bytes(handle).hex(), flush=True)
    sys.stdin.readline()


def ipc_event():
    """An event of another process, destroyed here: it was made by nobody here, and is no unknown one."""
    use()
    env = {k: v for k, v in os.environ.items() if k != "VGSIM_ACCOUNT"} | {"VRAMGUARD_ENABLE": "0"}
    with subprocess.Popen([sys.executable, __file__, "export_event"], env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as other:
        handle, event = EventHandle.from_buffer_copy(bytes.fromhex(other.stdout.readline())), c_void_p()
        must(cuda.cuIpcOpenEventHandle(byref(event), handle))
        step("opened")
        print("destroy", cuda.cuEventDestroy_v2(event))
        step("destroyed")
        other.communicate("\n")


SCENARIOS = {f.__name__: f for f in (pool, pool_again, graph_free, null_info, external, other_device, bare_thread, bare_thread_of_the_last_device,
                                     host_numa, mapped_after_release, capture, broken_capture, is_managed, free_and_total, ipc_event)}

if __name__ == "__main__":
    if sys.argv[1:] == ["--list"]:
        print(" ".join(SCENARIOS))
    else:
        must(cuda.cuInit(0))
        {**SCENARIOS, "export_event": export_event}[sys.argv[1]]()
        print("done", flush=True)
