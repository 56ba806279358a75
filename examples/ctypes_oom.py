# ctypes_oom.py -- Python without a framework: the driver through ctypes, until it refuses.
# SPDX-License-Identifier: Apache-2.0
#
# What a report of it must show: the Python line of `grow` that asked (the one with cuMemAlloc_v2), called from `main`, and the live blocks at
# that same line.
#
#   vramguard run --sim=4GiB -- python3 examples/ctypes_oom.py
import ctypes
import sys

MIB = 1 << 20


def check(status):
    if status:
        print(f"driver status {status}")
    return status == 0


def grow(cuda, blocks):
    pointer = ctypes.c_uint64()
    ok = check(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(256 * MIB)))
    if ok:
        blocks.append(pointer.value)
    return ok


def main():
    cuda = ctypes.CDLL("libcuda.so.1")
    context = ctypes.c_void_p()
    if not (check(cuda.cuInit(0)) and check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0))
            and check(cuda.cuCtxSetCurrent(context))):
        return 2
    blocks = []
    while grow(cuda, blocks):
        pass
    print(f"{len(blocks)} blocks")
    return 1


if __name__ == "__main__":
    sys.exit(main())
