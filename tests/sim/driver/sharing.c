/* sharing.c -- this process among those that share the devices (VGSIM_SHARED).
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      state.c enters and leaves it around every call; vmm.c and ipc.c tell it what crosses
 *             processes.
 * Holds:      while a call runs no other process's call does, so what was free when it looked is
 *             free when it takes.
 * Threads:    the driver's lock is held.
 */
#include "tests/sim/common/shared.h"
#include "tests/sim/driver/sim.h"

static struct {
    struct vgsim_shared *file;
    struct vgsim_shared_process *ours;
    uint64_t seen; /* the generation that shared_bytes is of */
    bool inside;
} state;

static void look(void)
{
    if (state.seen == state.file->generation)
        return;
    state.seen = state.file->generation;
    for (int i = 0; i < vgsim_knobs()->devices; i++) {
        uint64_t bytes = vgsim_shared_bytes(state.file, state.ours, i);
        vgsim_device_changed(i)->books.shared_bytes = bytes;
    }
}

void vgsim_sharing_enter(void)
{
    if (!state.ours || state.inside)
        return;
    vgsim_shared_lock(state.file);
    state.inside = true;
    look();
}

void vgsim_sharing_leave(void)
{
    if (state.inside)
        vgsim_shared_unlock(state.file);
    state.inside = false;
}

void vgsim_sharing_join(void)
{
    state.file = vgsim_shared_open();
    if (!state.file)
        return;
    vgsim_shared_lock(state.file);
    state.ours = vgsim_shared_join(state.file);
    vgsim_shared_unlock(state.file);
    vgsim_sharing_enter();
}

void vgsim_sharing_refresh(void)
{
    if (!state.inside)
        return;
    vgsim_shared_reap(state.file);
    look();
}

void vgsim_sharing_publish(int device, const struct vgsim_device_books *books)
{
    if (!state.inside)
        return;
    struct vgsim_shared_use *use = &state.ours->device[device];
    struct vgsim_shared_use now = {books->objects[VGSIM_COUNTED_contexts].live,
                                   books->context_bytes, books->page_bytes};
    if (use->contexts == now.contexts && use->context_bytes == now.context_bytes &&
        use->page_bytes == now.page_bytes)
        return;
    *use = now;
    /* Our own use is not in our shared_bytes: nothing to look at again. */
    bool current = state.seen == state.file->generation;
    state.file->generation++;
    if (current)
        state.seen = state.file->generation;
}

bool vgsim_sharing_opened(uint64_t inode)
{
    if (!state.inside)
        return true;
    for (int i = 0; i < VGSIM_SHARED_OPENS; i++)
        if (!state.ours->opens[i]) {
            state.ours->opens[i] = inode;
            return true;
        }
    return false;
}

void vgsim_sharing_closed(uint64_t inode)
{
    if (!state.inside)
        return;
    for (int i = 0; i < VGSIM_SHARED_OPENS; i++)
        if (state.ours->opens[i] == inode) {
            state.ours->opens[i] = 0;
            break;
        }
    vgsim_sharing_refresh();
}

void vgsim_sharing_freed(uint64_t inode, CUdevice device, uint64_t bytes)
{
    if (!state.inside || !vgsim_shared_is_open(state.file, inode))
        return;
    for (int i = 0; i < VGSIM_SHARED_ORPHANS; i++)
        if (!state.file->orphan[i].inode) {
            state.file->orphan[i] = (struct vgsim_shared_orphan){inode, bytes, device};
            state.file->generation++;
            look();
            return;
        }
}
