/* peer.c -- devices that use each other's memory.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Follows:    Driver API, Peer Context Memory Access: a device is no peer of itself, slices of
 *             devices have none; access is enabled by the current context, once, in one direction,
 *             and an ended context is nobody's peer.
 */
#include "tests/sim/driver/sim.h"

bool vgsim_is_peer(CUdevice device, CUdevice other)
{
    return device != other && !vgsim_knobs()->mig;
}

static CUresult can_access(int *out, CUdevice device, CUdevice other)
{
    if (!out)
        return CUDA_ERROR_INVALID_VALUE;
    if (!vgsim_is_device(device) || !vgsim_is_device(other))
        return CUDA_ERROR_INVALID_DEVICE;
    *out = vgsim_is_peer(device, other);
    return CUDA_SUCCESS;
}

CUresult cuDeviceCanAccessPeer(int *canAccessPeer, CUdevice dev, CUdevice peerDev)
{
    CALL(INIT, can_access(canAccessPeer, dev, peerDev));
}

static CUresult attribute(int *out, CUdevice_P2PAttribute which, CUdevice from, CUdevice to)
{
    CUresult result = from == to ? CUDA_ERROR_INVALID_DEVICE : can_access(out, from, to);
    if (result != CUDA_SUCCESS)
        return result;
    switch (which) {
    case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
    case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
        return CUDA_SUCCESS;
    case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
    case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
        *out = 0;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice src,
                                 CUdevice dst)
{
    CALL(INIT, attribute(value, attrib, src, dst));
}

/* NULL: it is not among ours. A context that has ended leaves its place to others. */
static struct vgsim_peer *find(struct CUctx_st *context, const struct CUctx_st *peer, uint64_t id)
{
    for (int i = 0; i < VGSIM_MAX_PEERS; i++)
        if (context->peers[i].context == peer && context->peers[i].id == id)
            return &context->peers[i];
    return NULL;
}

static struct vgsim_peer *free_place(struct CUctx_st *context)
{
    for (int i = 0; i < VGSIM_MAX_PEERS; i++) {
        struct vgsim_peer *peer = &context->peers[i];
        if (!peer->context || !peer->context->live || peer->context->id != peer->id)
            return peer;
    }
    return NULL;
}

static CUresult check(struct CUctx_st *peer)
{
    return !vgsim_is_context(peer) || peer == vgsim_current() ? CUDA_ERROR_INVALID_CONTEXT
                                                              : CUDA_SUCCESS;
}

static CUresult enable(struct CUctx_st *peer, unsigned int flags)
{
    struct CUctx_st *context = vgsim_current();
    CUresult result = flags ? CUDA_ERROR_INVALID_VALUE : check(peer);
    if (result != CUDA_SUCCESS)
        return result;
    if (!vgsim_is_peer(context->device, peer->device))
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    if (find(context, peer, peer->id))
        return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
    struct vgsim_peer *place = free_place(context);
    if (!place)
        return CUDA_ERROR_TOO_MANY_PEERS;
    *place = (struct vgsim_peer){peer, peer->id};
    return CUDA_SUCCESS;
}

CUresult cuCtxEnablePeerAccess(CUcontext peerContext, unsigned int Flags)
{
    CALL(CONTEXT, enable(peerContext, Flags));
}

static CUresult disable(struct CUctx_st *peer)
{
    CUresult result = check(peer);
    if (result != CUDA_SUCCESS)
        return result;
    struct vgsim_peer *place = find(vgsim_current(), peer, peer->id);
    if (!place)
        return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
    *place = (struct vgsim_peer){NULL, 0};
    return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peerContext)
{
    CALL(CONTEXT, disable(peerContext));
}
