/* lifecycle.c -- the states of the guard, and the one place where it starts.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   gate.c asks vg_lifecycle_guard() at every call; finish.c ends it.
 * Holds:   the state is a word in a page of its own that the kernel zeroes in a forked child,
 *          whichever way it was forked; zero is OFF. No page yet: COLD. Transitions go through
 *          vg_lifecycle_move(), checked against the table of legal pairs.
 * Threads: the thread that ends COLD starts; others that allocate meanwhile wait for it, at most a
 * second, then pass through.
 */
#include "interpose/lifecycle.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "interpose/config.h"
#include "interpose/driver.h"
#include "interpose/finish.h"
#include "interpose/raw_syscall.h"
#include "interpose/state.h"
#include "interpose/text_file.h"
#include "interpose/thread.h"
#include "interpose/unwind.h"

_Thread_local struct vg_thread vg_thread;

static struct {
    struct vg_guard guard;
    _Atomic(_Atomic uint32_t *) word; /* NULL: COLD */
    _Atomic int32_t starter;          /* pid of the process whose thread ends COLD */
} state;

uint32_t vg_thread_id(void)
{
    if (!vg_thread.id)
        vg_thread.id = (uint32_t)VG_CALL(gettid, 0);
    return vg_thread.id;
}

bool vg_lifecycle_is_legal(enum vg_state from, enum vg_state to)
{
    static const bool legal[VG_STATE_COUNT][VG_STATE_COUNT] = {
        [VG_STATE_STARTING] = {[VG_STATE_ON] = true, [VG_STATE_OFF] = true},
        [VG_STATE_ON] = {[VG_STATE_STOPPING] = true},
        [VG_STATE_STOPPING] = {[VG_STATE_OFF] = true},
    };
    return from < VG_STATE_COUNT && to < VG_STATE_COUNT && legal[from][to];
}

bool vg_lifecycle_move(enum vg_state from, enum vg_state to)
{
    _Atomic uint32_t *word = atomic_load_explicit(&state.word, memory_order_acquire);
    uint32_t expected = from;
    return word && vg_lifecycle_is_legal(from, to) &&
           atomic_compare_exchange_strong(word, &expected, to);
}

/* The coarse clock: a few milliseconds of resolution for a tenth of the cost, and this is asked at
 * every event. */
uint64_t vg_guard_now(const struct vg_guard *guard)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec - guard->start_monotonic_ns;
}

bool vg_guard_lock(struct vg_guard *guard)
{
    _Atomic uint32_t *word = atomic_load_explicit(&state.word, memory_order_relaxed);
    uint64_t limit = *word == VG_STATE_ON ? 0 : 100000000u;
    if (vg_lock_enter(&guard->ledger.lock, vg_thread_id(), limit) == VG_OK)
        return true;
    __atomic_fetch_add(&guard->record.header->dropped_count, 1, __ATOMIC_RELAXED);
    return false;
}

void vg_guard_unlock(struct vg_guard *guard)
{
    vg_lock_leave(&guard->ledger.lock);
}

bool vg_guard_has_stderr(const struct vg_guard *guard)
{
    struct stat st;
    return guard->has_stderr && VG_CALL(fstat, 2, &st) == 0 && st.st_dev == guard->stderr_device &&
           st.st_ino == guard->stderr_inode;
}

void vg_guard_print(const struct vg_guard *guard, const char *text, size_t length)
{
    if (!vg_guard_has_stderr(guard))
        return;
    while (length) {
        long n = VG_CALL(write, 2, text, length);
        if (n <= 0 && n != -EINTR)
            return;
        if (n > 0) {
            text += n;
            length -= (size_t)n;
        }
    }
}

void vg_guard_log(const struct vg_guard *guard, enum vg_log level, const char *format, ...)
{
    char line[VG_PATH_MAX + 512];
    if (level > guard->options.log)
        return;
    int n = snprintf(line, sizeof line - 1, "VRAMGuard: ");
    va_list arguments;
    va_start(arguments, format);
    int m = vsnprintf(line + n, sizeof line - 1 - (size_t)n, format, arguments);
    va_end(arguments);
    size_t length = (size_t)n + (m < 0 ? 0u : (size_t)m);
    if (length > sizeof line - 2)
        length = sizeof line - 2;
    line[length++] = '\n';
    vg_guard_print(guard, line, length);
}

bool vg_guard_lock_for_change(struct vg_guard *guard)
{
    if (!vg_guard_lock(guard))
        return false;
    vg_record_begin(&guard->record, vg_intent(0, VG_OP_NONE));
    return true;
}

void vg_guard_unlock_changed(struct vg_guard *guard)
{
    vg_record_end(&guard->record);
    vg_guard_unlock(guard);
}

/* --- starting --------------------------------------------------------------------------------- */

/* The arguments with 0x1f between them. That byte in an argument becomes '?', and what is too long
 * for a string of the record ends with an argument "...". */
static uint32_t read_cmdline(struct vg_stacks *stacks)
{
    static const char cut[] = "\x1f...";
    static char text[VG_STRING_MAX + 2]; /* one thread comes here, once, perhaps on a small stack */
    size_t n = vg_text_read("/proc/self/cmdline", text, sizeof text);
    bool is_cut = n > VG_STRING_MAX;
    while (n > 0 && text[n - 1] == 0)
        n--;
    for (size_t i = 0; i < n; i++)
        text[i] = text[i] == 0x1f ? '?' : text[i] == 0 ? 0x1f : text[i];
    if (is_cut) {
        n = VG_STRING_MAX;
        memcpy(text + n - (sizeof cut - 1), cut, sizeof cut - 1);
    }
    return n > 0 ? vg_strings_intern(stacks, text, n) : 0;
}

static uint32_t read_link(struct vg_stacks *stacks, const char *link)
{
    char path[VG_PATH_MAX];
    ssize_t n = readlink(link, path, sizeof path);
    return n > 0 ? vg_strings_intern(stacks, path, (size_t)n) : 0;
}

static uint32_t platform(void)
{
    char text[256];
    vg_text_read("/proc/sys/kernel/osrelease", text, sizeof text);
    if (strstr(text, "icrosoft"))
        return VG_PLATFORM_WSL;
    return strstr(text, "tegra") ? VG_PLATFORM_TEGRA : VG_PLATFORM_LINUX;
}

static void fill_header(struct vg_guard *guard)
{
    struct vg_header *header = guard->record.header;
    struct vg_stacks *stacks = &guard->ledger.stacks;
    struct timespec now;
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    host[strcspn(host, ".")] = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    header->pid = (uint32_t)guard->pid;
    header->host = vg_strings_intern_z(stacks, host);
    header->exe = read_link(stacks, "/proc/self/exe");
    if (!header->exe) /* no /proc: what it was started as */
        header->exe = vg_strings_intern_z(stacks, (const char *)getauxval(AT_EXECFN));
    header->cwd = read_link(stacks, "/proc/self/cwd");
    header->cmdline = read_cmdline(stacks);
    header->rank = guard->rank;
    header->platform = platform();
    header->unwinder = vg_strings_intern_z(stacks, vg_unwind_name());
    header->driver_version = vg_driver_version();
    header->start_realtime_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    header->start_monotonic_ns = guard->start_monotonic_ns;
    header->limit_bytes = guard->options.record_size;
}

static void remember_stderr(struct vg_guard *guard)
{
    struct stat st;
    guard->has_stderr = VG_CALL(fstat, 2, &st) == 0;
    guard->stderr_device = st.st_dev;
    guard->stderr_inode = st.st_ino;
}

/* False: stays off for good. */
static bool start_guard(struct vg_guard *guard)
{
    if (getauxval(AT_SECURE))
        return false;
    guard->pid = state.starter;
    remember_stderr(guard);
    vg_options_defaults(&guard->options);
    vg_config_options(guard);
    if (!guard->options.enable)
        return false;
    guard->rank = vg_config_rank();
    guard->start_monotonic_ns = vg_guard_now(guard);
    if (vg_config_create_record(guard) != VG_OK) {
        vg_guard_log(guard, VG_LOG_WARN, "no room for a record (%s): this process is not watched",
                     strerror(errno));
        return false;
    }
    vg_ledger_init(&guard->ledger, &guard->record);
    vg_driver_init();
    vg_unwind_init();
    if ((guard->options.stacks & VG_STACKS_NATIVE) && !vg_unwind_is_there())
        vg_guard_log(guard, VG_LOG_WARN,
                     "neither libunwind.so.8 nor libgcc_s.so.1 is here: no native stacks");
    fill_header(guard);
    vg_finish_register();
    return true;
}

/* NULL: none to be had, and the guard stays off. */
static _Atomic uint32_t *make_word(void)
{
    void *page = mmap(NULL, VG_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return NULL;
    if (madvise(page, VG_PAGE, MADV_WIPEONFORK) !=
        0) { /* before Linux 4.14: a fork would leave two writers */
        munmap(page, VG_PAGE);
        return NULL;
    }
    return page;
}

static struct vg_guard *start(void)
{
    static _Atomic uint32_t off;
    int32_t nobody = 0, self = (int32_t)VG_CALL(getpid, 0);
    if (!atomic_compare_exchange_strong(&state.starter, &nobody, self)) {
        if (nobody != self)
            return NULL; /* forked while another thread of the parent was starting */
        for (int i = 0; i < 1000 && !atomic_load(&state.word); i++)
            nanosleep(&(struct timespec){0, 1000000}, NULL);
        return atomic_load(&state.word) ? vg_lifecycle_guard(false) : NULL;
    }
    vg_thread.id = 0; /* may be from before a fork */
    _Atomic uint32_t *word = make_word();
    bool on = word && start_guard(&state.guard);
    if (on)
        *word = VG_STATE_ON;
    atomic_store_explicit(&state.word, word ? word : &off, memory_order_release);
    return on ? &state.guard : NULL;
}

struct vg_guard *vg_lifecycle_guard(bool starts)
{
    _Atomic uint32_t *word = atomic_load_explicit(&state.word, memory_order_acquire);
    if (!word) {
        if (!starts)
            return NULL;
        /* From here on a signal handler of this thread passes through: it would wait for itself. */
        unsigned depth = vg_thread.depth++;
        int cancel = vg_thread_hold();
        struct vg_guard *guard = start();
        vg_thread_release(cancel);
        vg_thread.depth = depth;
        return guard;
    }
    return atomic_load_explicit(word, memory_order_relaxed) == VG_STATE_ON ? &state.guard : NULL;
}

struct vg_guard *vg_lifecycle_any(void)
{
    _Atomic uint32_t *word = atomic_load_explicit(&state.word, memory_order_acquire);
    return word && atomic_load_explicit(word, memory_order_relaxed) != VG_STATE_OFF ? &state.guard
                                                                                    : NULL;
}
