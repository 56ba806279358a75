/* stream.c -- streams. Work is done when it is given; pending.c keeps what the host knows of it.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/driver/sim.h"

static uint64_t last_id = 2; /* 1 and 2 are the legacy and the per-thread stream */

static bool is_number(CUstream stream)
{
    return (uintptr_t)stream <= 2;
}

CUresult vgsim_stream_known(CUstream stream)
{
    return is_number(stream) || vgsim_object_is(stream, STREAM) ? CUDA_SUCCESS
                                                                : CUDA_ERROR_INVALID_HANDLE;
}

CUresult vgsim_stream_check(CUstream stream)
{
    CUresult result = vgsim_stream_known(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (is_number(stream))
        return stream == CU_STREAM_PER_THREAD ? CUDA_SUCCESS : vgsim_capture_implicit();
    return stream->capture && !vgsim_capture_is_active(stream)
               ? CUDA_ERROR_STREAM_CAPTURE_INVALIDATED
               : CUDA_SUCCESS;
}

struct CUctx_st *vgsim_stream_context(CUstream stream)
{
    return is_number(stream) ? vgsim_current() : stream->object.context;
}

struct vgsim_line *vgsim_stream_line(CUstream stream)
{
    return is_number(stream) ? &vgsim_current()->line : &stream->line;
}

bool vgsim_stream_takes(CUstream stream, CUgraphNodeType type)
{
    if (!is_number(stream) && stream->capture) {
        vgsim_capture_node(stream, type);
        return true;
    }
    vgsim_work_add(vgsim_stream_line(stream));
    return false;
}

void vgsim_stream_forget(struct CUstream_st *stream)
{
    vgsim_capture_forget(stream);
    vgsim_line_close(&stream->line);
}

CUresult vgsim_stream_new(CUstream *out, unsigned int flags, int priority, struct CUctx_st *context)
{
    if (!out || flags & ~(unsigned int)CU_STREAM_NON_BLOCKING)
        return CUDA_ERROR_INVALID_VALUE;
    struct CUstream_st *stream = vgsim_object_add(STREAM, sizeof *stream, context);
    if (!stream)
        return CUDA_ERROR_OUT_OF_MEMORY;
    stream->flags = flags;
    stream->priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
    stream->id = ++last_id;
    vgsim_line_open(&stream->line, stream->object.context, false,
                    !(flags & CU_STREAM_NON_BLOCKING));
    *out = stream;
    return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *phStream, unsigned int Flags)
{
    CALL(CONTEXT, vgsim_stream_new(phStream, Flags, 0, vgsim_current()));
}

CUresult cuStreamCreateWithPriority(CUstream *phStream, unsigned int flags, int priority)
{
    CALL(CONTEXT, vgsim_stream_new(phStream, flags, priority, vgsim_current()));
}

static CUresult destroy(CUstream stream)
{
    if (is_number(stream) || !vgsim_object_is(stream, STREAM))
        return CUDA_ERROR_INVALID_HANDLE;
    vgsim_stream_forget(stream);
    vgsim_object_remove(stream);
    return CUDA_SUCCESS;
}

CUresult cuStreamDestroy(CUstream hStream)
{
    CALL(CONTEXT, destroy(hStream));
}

CUresult cuStreamDestroy_v2(CUstream hStream)
{
    CALL(CONTEXT, destroy(hStream));
}

/* --- questions -------------------------------------------------------------------------------- */

static CUresult check(CUstream stream, const void *out)
{
    return out ? vgsim_stream_known(stream) : CUDA_ERROR_INVALID_VALUE;
}

static CUresult get_priority(CUstream stream, int *out)
{
    CUresult result = check(stream, out);
    if (result == CUDA_SUCCESS)
        *out = is_number(stream) ? 0 : stream->priority;
    return result;
}

CUresult cuStreamGetPriority(CUstream hStream, int *priority)
{
    CALL(CONTEXT, get_priority(hStream, priority));
}

static CUresult get_flags(CUstream stream, unsigned int *out)
{
    CUresult result = check(stream, out);
    if (result == CUDA_SUCCESS)
        *out = is_number(stream) ? 0 : stream->flags;
    return result;
}

CUresult cuStreamGetFlags(CUstream hStream, unsigned int *flags)
{
    CALL(CONTEXT, get_flags(hStream, flags));
}

static CUresult get_id(CUstream stream, unsigned long long *out)
{
    CUresult result = check(stream, out);
    if (result == CUDA_SUCCESS && is_number(stream))
        *out = (uintptr_t)stream == 2 ? 2 : 1;
    else if (result == CUDA_SUCCESS)
        *out = stream->id;
    return result;
}

CUresult cuStreamGetId(CUstream hStream, unsigned long long *streamId)
{
    CALL(CONTEXT, get_id(hStream, streamId));
}

static CUresult get_context(CUstream stream, CUcontext *out)
{
    CUresult result = check(stream, out);
    if (result == CUDA_SUCCESS)
        *out = is_number(stream) ? vgsim_current() : stream->object.context;
    return result;
}

CUresult cuStreamGetCtx(CUstream hStream, CUcontext *pctx)
{
    CALL(CONTEXT, get_context(hStream, pctx));
}

static CUresult get_device(CUstream stream, CUdevice *out)
{
    CUcontext context;
    CUresult result = out ? get_context(stream, &context) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        *out = context->device;
    return result;
}

CUresult cuStreamGetDevice(CUstream hStream, CUdevice *device)
{
    CALL(CONTEXT, get_device(hStream, device));
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* A stream that captures cannot be waited for or asked, and trying ends the capture (CUDA
 * Programming Guide, "Prohibited and Unhandled Operations" of stream capture). */
static CUresult may_wait(CUstream stream)
{
    CUresult result = vgsim_stream_known(stream);
    if (result != CUDA_SUCCESS || is_number(stream))
        return result == CUDA_SUCCESS ? vgsim_stream_check(stream) : result;
    if (!stream->capture)
        return CUDA_SUCCESS;
    vgsim_capture_invalidate(stream);
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

static CUresult query(CUstream stream)
{
    CUresult result = may_wait(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct vgsim_line *line = vgsim_stream_line(stream);
    if (line->last > line->done && line->asked != line->last) {
        line->asked = line->last;
        return CUDA_ERROR_NOT_READY;
    }
    vgsim_work_done(line->id, line->last);
    return CUDA_SUCCESS;
}

CUresult cuStreamQuery(CUstream hStream)
{
    CALL(CONTEXT, query(hStream));
}

static CUresult synchronize(CUstream stream)
{
    CUresult result = may_wait(stream);
    if (result != CUDA_SUCCESS)
        return result;
    struct vgsim_line *line = vgsim_stream_line(stream);
    if (line->legacy)
        vgsim_work_add(line); /* it waits for the blocking streams too */
    vgsim_work_done(line->id, line->last);
    vgsim_pools_sync(vgsim_stream_context(stream)->device);
    return CUDA_SUCCESS;
}

CUresult cuStreamSynchronize(CUstream hStream)
{
    CALL(CONTEXT, synchronize(hStream));
}

/* The program's function runs without our lock: it may come back to us. */
CUresult cuStreamAddCallback(CUstream hStream, CUstreamCallback callback, void *userData,
                             unsigned int flags)
{
    CUresult result = vgsim_enter(__func__, CONTEXT);
    if (result != CUDA_SUCCESS)
        return result;
    result = callback && !flags ? may_wait(hStream) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        vgsim_stream_takes(hStream, CU_GRAPH_NODE_TYPE_HOST);
    vgsim_leave(result);
    if (result == CUDA_SUCCESS)
        callback(hStream, CUDA_SUCCESS, userData);
    return result;
}

CUresult cuLaunchHostFunc(CUstream hStream, CUhostFn fn, void *userData)
{
    CUresult result = vgsim_enter(__func__, CONTEXT);
    if (result != CUDA_SUCCESS)
        return result;
    bool noted = false;
    result = fn ? vgsim_stream_check(hStream) : CUDA_ERROR_INVALID_VALUE;
    if (result == CUDA_SUCCESS)
        noted = vgsim_stream_takes(hStream, CU_GRAPH_NODE_TYPE_HOST);
    vgsim_leave(result);
    if (result == CUDA_SUCCESS && !noted)
        fn(userData);
    return result;
}

static CUresult attach(CUstream stream, CUdeviceptr pointer)
{
    const struct vgsim_block *block = vgsim_block_at((uintptr_t)pointer);
    if (!block || block->kind != VGSIM_KIND_managed)
        return CUDA_ERROR_INVALID_VALUE;
    return vgsim_stream_check(stream);
}

CUresult cuStreamAttachMemAsync(CUstream hStream, CUdeviceptr dptr, size_t length,
                                unsigned int flags)
{
    (void)length;
    (void)flags;
    CALL(CONTEXT, attach(hStream, dptr));
}

/* --- words of memory -------------------------------------------------------------------------- */

static CUresult write_word(CUstream stream, CUdeviceptr address, uint64_t value, size_t bytes)
{
    CUresult result = vgsim_stream_check(stream);
    if (result != CUDA_SUCCESS)
        return result;
    if (address % bytes || !vgsim_block_covers((uintptr_t)address, bytes))
        return CUDA_ERROR_INVALID_VALUE;
    if (vgsim_stream_takes(stream, CU_GRAPH_NODE_TYPE_BATCH_MEM_OP))
        return CUDA_SUCCESS;
    if (bytes == 4)
        *(volatile uint32_t *)(uintptr_t)address = (uint32_t)value;
    else
        *(volatile uint64_t *)(uintptr_t)address = value;
    return CUDA_SUCCESS;
}

CUresult cuStreamWriteValue32(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                              unsigned int flags)
{
    (void)flags;
    CALL(CONTEXT, write_word(stream, addr, value, 4));
}

CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                 unsigned int flags)
{
    (void)flags;
    CALL(CONTEXT, write_word(stream, addr, value, 4));
}

CUresult cuStreamWriteValue64(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                              unsigned int flags)
{
    (void)flags;
    CALL(CONTEXT, write_word(stream, addr, value, 8));
}

CUresult cuStreamWriteValue64_v2(CUstream stream, CUdeviceptr addr, cuuint64_t value,
                                 unsigned int flags)
{
    (void)flags;
    CALL(CONTEXT, write_word(stream, addr, value, 8));
}

/* Nothing runs beside the caller that could make the value come true. */
CUresult cuStreamWaitValue32_v2(CUstream stream, CUdeviceptr addr, cuuint32_t value,
                                unsigned int flags)
{
    (void)stream;
    (void)addr;
    (void)value;
    (void)flags;
    CALL(CONTEXT, CUDA_ERROR_NOT_SUPPORTED);
}
