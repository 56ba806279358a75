# test_stderr.py -- nothing is printed where descriptor 2 is not what it was.
# SPDX-License-Identifier: Apache-2.0
import os

import guarded

CODE = """
import ctypes, os
cuda = ctypes.CDLL("libcuda.so.1")
context, pointer = ctypes.c_void_p(), ctypes.c_uint64()
cuda.cuInit(0); cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0); cuda.cuCtxSetCurrent(context)
assert not cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20))
os.dup2(os.open("mine", os.O_RDWR | os.O_CREAT), 2)
print(cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 45)))
"""


def test_a_file_that_became_descriptor_2_stays_empty_and_the_json_is_written(tmp_path):
    done = guarded.run([guarded.PYTHON, "-c", CODE], tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "2\n", "")
    assert os.path.getsize(tmp_path / "mine") == 0
    assert guarded.written(tmp_path, "oom")[0]["verdict"]["class"] == "absurd-request"
