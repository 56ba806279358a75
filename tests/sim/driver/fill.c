/* fill.c -- memset, in all its widths.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      zeroing never makes the host pay for memory that nobody touched.
 */
#include "tests/sim/driver/sim.h"

#include <string.h>
#include <sys/mman.h>

#define HOST_PAGE ((uintptr_t)4096)

/* Private anonymous memory reads as zero when it is dropped. Mapped handles are shared, registered
 * memory is the program's. */
static bool may_drop(uintptr_t address)
{
    const struct vgsim_block *block = vgsim_block_at(address);
    return block && block->kind != VGSIM_KIND_vmm && block->kind != VGSIM_KIND_registered;
}

static void zero(uintptr_t address, size_t bytes)
{
    uintptr_t first = (address + HOST_PAGE - 1) & ~(HOST_PAGE - 1);
    uintptr_t end = (address + bytes) & ~(HOST_PAGE - 1);
    if (first < end && end - first >= 16 * HOST_PAGE && may_drop(address) &&
        madvise((void *)first, end - first, MADV_DONTNEED) == 0) {
        memset((void *)address, 0, first - address);
        memset((void *)end, 0, address + bytes - end);
        return;
    }
    memset((void *)address, 0, bytes);
}

static void fill(uintptr_t address, uint32_t value, size_t width, size_t count)
{
    if (value == 0) {
        zero(address, count * width);
        return;
    }
    switch (width) {
    case 1:
        memset((void *)address, (int)value, count);
        break;
    case 2:
        for (size_t i = 0; i < count; i++)
            ((uint16_t *)address)[i] = (uint16_t)value;
        break;
    default:
        for (size_t i = 0; i < count; i++)
            ((uint32_t *)address)[i] = value;
        break;
    }
}

static CUresult fill_rows(CUdeviceptr to, size_t pitch, uint32_t value, size_t width, size_t count,
                          size_t rows, CUstream stream)
{
    size_t line, all;
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS || count == 0 || rows == 0)
        return result;
    if (__builtin_mul_overflow(count, width, &line) ||
        __builtin_mul_overflow(pitch, rows - 1, &all) || __builtin_add_overflow(all, line, &all) ||
        (rows > 1 && pitch < line) || to % width || !vgsim_block_covers((uintptr_t)to, all))
        return CUDA_ERROR_INVALID_VALUE;
    if (vgsim_stream_takes(stream, CU_GRAPH_NODE_TYPE_MEMSET))
        return CUDA_SUCCESS;
    for (size_t y = 0; y < rows; y++)
        fill((uintptr_t)to + y * pitch, value, width, count);
    return CUDA_SUCCESS;
}

CUresult cuMemsetD8_v2(CUdeviceptr dst, unsigned char uc, size_t N)
{
    CALL(CONTEXT | UNSAFE, fill_rows(dst, 0, uc, 1, N, 1, NULL));
}

CUresult cuMemsetD16_v2(CUdeviceptr dst, unsigned short us, size_t N)
{
    CALL(CONTEXT | UNSAFE, fill_rows(dst, 0, us, 2, N, 1, NULL));
}

CUresult cuMemsetD32_v2(CUdeviceptr dst, unsigned int ui, size_t N)
{
    CALL(CONTEXT | UNSAFE, fill_rows(dst, 0, ui, 4, N, 1, NULL));
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char uc, size_t N, CUstream hStream)
{
    CALL(CONTEXT, fill_rows(dst, 0, uc, 1, N, 1, hStream));
}

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short us, size_t N, CUstream hStream)
{
    CALL(CONTEXT, fill_rows(dst, 0, us, 2, N, 1, hStream));
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int ui, size_t N, CUstream hStream)
{
    CALL(CONTEXT, fill_rows(dst, 0, ui, 4, N, 1, hStream));
}

CUresult cuMemsetD2D8_v2(CUdeviceptr dst, size_t dstPitch, unsigned char uc, size_t Width,
                         size_t Height)
{
    CALL(CONTEXT | UNSAFE, fill_rows(dst, dstPitch, uc, 1, Width, Height, NULL));
}

CUresult cuMemsetD2D16_v2(CUdeviceptr dst, size_t dstPitch, unsigned short us, size_t Width,
                          size_t Height)
{
    CALL(CONTEXT | UNSAFE, fill_rows(dst, dstPitch, us, 2, Width, Height, NULL));
}

CUresult cuMemsetD2D32_v2(CUdeviceptr dst, size_t dstPitch, unsigned int ui, size_t Width,
                          size_t Height)
{
    CALL(CONTEXT | UNSAFE, fill_rows(dst, dstPitch, ui, 4, Width, Height, NULL));
}

CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t dstPitch, unsigned char uc, size_t Width,
                           size_t Height, CUstream hStream)
{
    CALL(CONTEXT, fill_rows(dst, dstPitch, uc, 1, Width, Height, hStream));
}

CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t dstPitch, unsigned short us, size_t Width,
                            size_t Height, CUstream hStream)
{
    CALL(CONTEXT, fill_rows(dst, dstPitch, us, 2, Width, Height, hStream));
}

CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t dstPitch, unsigned int ui, size_t Width,
                            size_t Height, CUstream hStream)
{
    CALL(CONTEXT, fill_rows(dst, dstPitch, ui, 4, Width, Height, hStream));
}
