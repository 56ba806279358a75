# kinds_ctypes.py -- what Python does without a binding: the driver by dlopen and dlsym, one allocation of each kind, then all freed.
# SPDX-License-Identifier: Apache-2.0
import ctypes
import sys
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

cuda = ctypes.CDLL("libcuda.so.1")
MIB = 1 << 20


class Location(ctypes.Structure):
    _fields_ = [("type", c_int), ("id", c_int)]


class MemoryProperties(ctypes.Structure):
    _fields_ = [("type", c_int), ("handle_types", c_int), ("location", Location), ("win32", c_void_p), ("flags", ctypes.c_ubyte * 8)]


class ArrayDescriptor(ctypes.Structure):
    _fields_ = [("width", c_size_t), ("height", c_size_t), ("format", c_int), ("channels", c_uint)]


def call(name, *arguments):
    status = getattr(cuda, name)(*arguments)
    assert status == 0, (name, status)


def step(name):
    time.sleep(0.012)
    event = c_void_p()
    call("cuEventCreate", byref(event), 0)  # the guard looks at the device
    call("cuEventDestroy_v2", event)
    print("step", name, flush=True)
    sys.stdin.readline()


def made(name, out, *arguments):
    call(name, byref(out), *arguments)
    return out


call("cuInit", 0)
context = made("cuDevicePrimaryCtxRetain", c_void_p(), 0)
call("cuCtxSetCurrent", context)
stream = made("cuStreamCreate", c_void_p(), 1)
plain = made("cuMemAlloc_v2", c_ulonglong(), c_size_t(1000003))
print("bytes 0 device 1000003")
managed = made("cuMemAllocManaged", c_ulonglong(), c_size_t(5000), 1)
print("bytes 0 managed 5000")
pinned = made("cuMemHostAlloc", c_void_p(), c_size_t(7000), 0)
print("bytes 0 pinned 7000")
pooled = made("cuMemAllocAsync", c_ulonglong(), c_size_t(3000001), stream)
print("bytes 0 pool 3000001")
properties = MemoryProperties(type=1, location=Location(1, 0))
handle = made("cuMemCreate", c_ulonglong(), c_size_t(4 * MIB), byref(properties), c_ulonglong(0))
print("bytes 0 vmm", 4 * MIB)
array = made("cuArrayCreate_v2", c_void_p(), byref(ArrayDescriptor(300, 200, 0x20, 4)))
call("cuStreamBeginCapture_v2", stream, 1)
in_graph = made("cuMemAllocAsync", c_ulonglong(), c_size_t(700001), stream)
graph, executable = c_void_p(), c_void_p()
call("cuStreamEndCapture", stream, byref(graph))
call("cuGraphInstantiateWithFlags", byref(executable), graph, c_ulonglong(0))
call("cuGraphLaunch", executable, stream)
print("bytes 0 graph 700001")
step("made")
call("cuMemFreeAsync", in_graph, stream)
call("cuArrayDestroy", array)
call("cuMemRelease", handle)
call("cuMemFreeAsync", pooled, stream)
call("cuMemFreeHost", pinned)
call("cuMemFree_v2", managed)
call("cuMemFree_v2", plain)
call("cuStreamSynchronize", stream)
step("freed")
