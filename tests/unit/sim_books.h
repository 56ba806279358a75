/* sim_books.h -- the simulated driver's books of a device, in the process that it runs in.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_TEST_SIM_BOOKS_H
#define VG_TEST_SIM_BOOKS_H

#include "tests/sim/common/books.h"
#include "tests/unit/sim_child.h"

#include <stdbool.h>

static inline struct vgsim_device_books sim_books(int device)
{
    struct vgsim_device_books books;
    bool (*get)(int, struct vgsim_device_books *) =
        (bool (*)(int, struct vgsim_device_books *))sim_symbol("libcuda.so.1",
                                                               "vgsim_device_books");
    CHECK(get(device, &books));
    return books;
}

static inline CUstream sim_stream(unsigned int flags)
{
    CUstream stream;
    CHECK_EQUAL(CU(cuStreamCreate)(&stream, flags), CUDA_SUCCESS);
    return stream;
}

static inline CUdeviceptr sim_alloc_async(size_t bytes, CUstream stream)
{
    CUdeviceptr pointer = 0;
    CHECK_EQUAL(CU(cuMemAllocAsync)(&pointer, bytes, stream), CUDA_SUCCESS);
    return pointer;
}

#define SUCCEEDS(call) CHECK_EQUAL(call, CUDA_SUCCESS)

#endif
