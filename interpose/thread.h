/* thread.h -- what the guard keeps per thread.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_THREAD_H
#define VG_THREAD_H

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

/* The last failed allocation of this thread that may still turn out to be final (families.def says
 * who decides). */
struct vg_pending {
    bool set;
    /* it was taken as final already: what the framework reports later is the same incident */
    bool counted;
    uint8_t attempts;
    uint8_t kind;
    int32_t error;
    int32_t device;
    uint32_t api, via, stack, site, context;
    uint64_t bytes;
};

struct vg_thread {
    unsigned depth;         /* > 0: inside a watched call, or inside a call of our own */
    bool moving;            /* its call that changes memory is under way (quiet.h) */
    bool calling;           /* at depth 1: inside the real call; false: in code of our own */
    uint16_t via;           /* hook of the runtime call that is under way */
    uint32_t id;            /* the kernel's thread id; 0 not asked yet */
    uint64_t driver_events; /* driver calls entered by this thread */
    uint64_t refusals;      /* driver calls of this thread that failed */
    uint64_t context_handle,
        context_id; /* the last context seen here, so that it is asked for its device once */
    int32_t context_device;
    struct vg_pending pending;
    bool unsettled; /* incident.c's list has failures of this thread */
};

extern _Thread_local struct vg_thread vg_thread __attribute__((visibility("hidden")));
uint32_t vg_thread_id(void);

/* Around work of ours in which a thread must not end because it was cancelled: the program's call
 * is no cancellation point, so neither are we. */
static inline int vg_thread_hold(void)
{
    int was = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    return was;
}

static inline void vg_thread_release(int was)
{
    pthread_setcancelstate(was, NULL);
}

/* Around work of ours that is not between vg_gate_enter() and vg_gate_leave(): hooks pass through,
 * no cancellation, errno stays. False: this thread is inside already, and nothing is to be done. */
struct vg_own {
    int saved_errno, cancel;
};
static inline bool vg_own_enter(struct vg_own *own)
{
    if (vg_thread.depth)
        return false;
    vg_thread.depth = 1;
    own->saved_errno = errno;
    own->cancel = vg_thread_hold();
    return true;
}
static inline void vg_own_leave(struct vg_own *own)
{
    vg_thread_release(own->cancel);
    errno = own->saved_errno;
    vg_thread.depth = 0;
}

#endif
