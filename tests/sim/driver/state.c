/* state.c -- the driver's one lock, its life, its devices' capacity, and the calls that shall fail.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      free = total - others - hidden - contexts - pages in use, at every moment.
 * Threads:    one lock over everything; a forked child never takes it (its owner may not exist
 *             there).
 */
#include "tests/sim/driver/sim.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

static struct {
    pthread_mutex_t lock;
    /* Lies in a page that reads as zero in every child, however it was made: _Fork and raw clone
     * run no handler. NULL until cuInit. */
    _Atomic(_Atomic int *) alive;
    struct vgsim_device devices[VGSIM_MAX_DEVICES];
    _Atomic uint64_t fail_calls[VGSIM_MAX_RULES];
} state = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* --- VGSIM_FAIL and VGSIM_LATENCY ------------------------------------------------------------- */

static size_t drop_stream_suffix(const char *name)
{
    size_t length = strlen(name);
    if (length > 5 && (!strcmp(name + length - 5, "_ptsz") || !strcmp(name + length - 5, "_ptds")))
        return length - 5;
    return length;
}

/* A rule means the export it names, or every version of the name it gives; both forms of a stream
 * argument are one call. */
static bool rule_matches(const char *rule, const char *api)
{
    size_t rule_length = drop_stream_suffix(rule);
    size_t length = strlen(api);
    if (rule_length == length && !memcmp(rule, api, length))
        return true;
    if (length > 3 && api[length - 3] == '_' && api[length - 2] == 'v')
        length -= 3;
    return rule_length == length && !memcmp(rule, api, length);
}

static CUresult apply_rules(const char *api)
{
    const struct vgsim_knobs *knobs = vgsim_knobs();
    for (int i = 0; i < knobs->latency_count; i++)
        if (rule_matches(knobs->latencies[i].api, api)) {
            uint64_t us = knobs->latencies[i].us;
            struct timespec rest = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
            while (nanosleep(&rest, &rest))
                ;
        }
    CUresult result = CUDA_SUCCESS;
    for (int i = 0; i < knobs->fail_count; i++) {
        const struct vgsim_fail *fail = &knobs->fails[i];
        if (!rule_matches(fail->api, api))
            continue;
        uint64_t call = atomic_fetch_add(&state.fail_calls[i], 1) + 1;
        if (call == fail->nth || (fail->from_on && call > fail->nth))
            result = (CUresult)fail->code;
    }
    return result;
}

/* --- life ------------------------------------------------------------------------------------- */

CUresult vgsim_enter(const char *api, unsigned int need)
{
    const struct vgsim_knobs *knobs = vgsim_knobs();
    if (knobs->fail_count || knobs->latency_count) {
        CUresult failed = apply_rules(api);
        if (failed != CUDA_SUCCESS)
            return failed;
    }
    if (knobs->strict_capture)
        vgsim_capture_audit(api);
    _Atomic int *alive = atomic_load(&state.alive);
    if (alive ? !atomic_load(alive) : need != NOTHING)
        return CUDA_ERROR_NOT_INITIALIZED;
    pthread_mutex_lock(&state.lock);
    vgsim_sharing_enter();
    CUresult result = need & CONTEXT ? vgsim_current_state() : CUDA_SUCCESS;
    if (result == CUDA_SUCCESS && need & UNSAFE)
        result = vgsim_capture_forbids();
    return result == CUDA_SUCCESS ? result : vgsim_leave(result);
}

CUresult vgsim_leave(CUresult result)
{
    for (int i = 0; i < vgsim_knobs()->devices; i++)
        if (state.devices[i].dirty) {
            struct vgsim_device *device = &state.devices[i];
            device->dirty = false;
            device->books.free_bytes = vgsim_free_bytes(&device->books);
            vgsim_account_publish(i, &device->books);
            vgsim_sharing_publish(i, &device->books);
        }
    vgsim_sharing_leave();
    pthread_mutex_unlock(&state.lock);
    return result;
}

static _Atomic int *open_life_page(void)
{
    void *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    madvise(page, 4096, MADV_WIPEONFORK);
    return page;
}

CUresult vgsim_state_init(void)
{
    const struct vgsim_knobs *knobs = vgsim_knobs();
    if (atomic_load(&state.alive))
        return CUDA_SUCCESS;
    if (knobs->devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    _Atomic int *alive = open_life_page();
    if (!alive)
        return CUDA_ERROR_OUT_OF_MEMORY;
    vgsim_sharing_join();
    if (knobs->account)
        vgsim_account_open(knobs->account, knobs->devices);
    for (int i = 0; i < knobs->devices; i++) {
        struct vgsim_device_books *books = &vgsim_device_changed(i)->books;
        books->total_bytes = knobs->memory[i];
        books->others_bytes = vgsim_others_bytes(knobs, i);
        books->hidden_bytes = knobs->hidden;
    }
    atomic_store(alive, 1);
    atomic_store(&state.alive, alive);
    return CUDA_SUCCESS;
}

/* --- capacity --------------------------------------------------------------------------------- */

bool vgsim_is_device(CUdevice device)
{
    return device >= 0 && device < vgsim_knobs()->devices;
}

struct vgsim_device *vgsim_device_changed(CUdevice device)
{
    state.devices[device].dirty = true;
    return &state.devices[device];
}

uint64_t vgsim_free_bytes(const struct vgsim_device_books *books)
{
    uint64_t used = books->others_bytes + books->hidden_bytes + books->shared_bytes +
                    books->context_bytes + books->page_bytes;
    return used < books->total_bytes ? books->total_bytes - used : 0;
}

/* Before it says no it looks whether another process has ended. */
bool vgsim_has_room(CUdevice device, uint64_t bytes)
{
    if (bytes <= vgsim_free_bytes(&state.devices[device].books))
        return true;
    vgsim_sharing_refresh();
    return bytes <= vgsim_free_bytes(&state.devices[device].books);
}

bool vgsim_pages_take(CUdevice device, size_t pages)
{
    struct vgsim_device_books *books = &vgsim_device_changed(device)->books;
    if (pages > SIZE_MAX / VGSIM_PAGE || !vgsim_has_room(device, pages * VGSIM_PAGE))
        return false;
    books->pages += pages;
    books->page_bytes += pages * VGSIM_PAGE;
    if (books->context_bytes + books->page_bytes > books->peak_bytes)
        books->peak_bytes = books->context_bytes + books->page_bytes;
    return true;
}

CUresult vgsim_refused(CUdevice device)
{
    vgsim_device_changed(device)->books.failed_allocations++;
    return CUDA_ERROR_OUT_OF_MEMORY;
}

void vgsim_pages_give(CUdevice device, size_t pages)
{
    struct vgsim_device_books *books = &vgsim_device_changed(device)->books;
    books->pages -= pages;
    books->page_bytes -= pages * VGSIM_PAGE;
}

bool vgsim_round_up(size_t value, size_t multiple, size_t *out)
{
    if (value > SIZE_MAX - (multiple - 1))
        return false;
    *out = (value + multiple - 1) / multiple * multiple;
    return true;
}

bool vgsim_device_books(int device, struct vgsim_device_books *books_out)
{
    if (!vgsim_is_device(device) || vgsim_enter("vgsim_device_books", INIT) != CUDA_SUCCESS)
        return false;
    vgsim_sharing_refresh();
    *books_out = state.devices[device].books;
    books_out->free_bytes = vgsim_free_bytes(books_out);
    vgsim_leave(CUDA_SUCCESS);
    return true;
}
