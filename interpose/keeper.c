/* keeper.c -- starts the report tool without the guarded program noticing a child.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      incident -> keeper -> `vramguard report`. Three tasks: the failing thread (the
 *             program), the keeper (a process that shares the program's memory and nothing else,
 *             its exit signal is 0), the tool (the keeper's child).
 * Holds:      a slot is given back only after its keeper was reaped, so its stack and its word are
 *             never pulled away. No function of libc is called, by the compiler neither: the object
 *             file has no undefined symbol (a test looks).
 * Threads:    any. A slot belongs to who moved it from FREE or PENDING to BUSY.
 * Not here:   which tool, which arguments, what to say when it fails (incident.c).
 */
#include "interpose/keeper.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>

#include "interpose/raw_syscall.h"

#define VG_KEEPER_LOOK_NS  100000000u
#define VG_KEEPER_GRACE_NS 1000000000u
#define VG_KEEPER_TOOL_FD  3
/* Whole pages whatever their size; what is never touched costs nothing. */
#define VG_KEEPER_GUARD_BYTES 65536u
#define VG_KEEPER_STACK_BYTES 65536u
#define VG_KEEPER_TLS_BYTES   1024u

enum slot_state { FREE, BUSY, PENDING };

/* The word: what the waiting thread sleeps on. The kernel itself writes ENDED, however the keeper
 * died. */
enum keeper_word { ENDED, RUNNING, LINGERING };

struct slot {
    _Atomic(int) state;
    _Atomic(uint32_t) word;
    _Atomic(int) outcome;
    int tool_status;
    int exec_error;
    int incident_fd;
    _Atomic(int) *ended_out;
    uint64_t timeout_ns;
    _Atomic(long)
        owner; /* the process whose child the keeper is: a forked copy of this table is not ours */
    long keeper;
    char *map;
    size_t map_bytes;
    char *tls;
    const char *tool;
    char **argv;
    char **envp;
};

static struct {
    struct slot slots[VG_KEEPER_MAX];
} keeper;

/* --- small helpers, usable on both sides --- */

static VG_BARE uint64_t now_ns(void)
{
    struct timespec t;
    VG_CALL(clock_gettime, CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static VG_BARE uint64_t later(uint64_t start_ns, uint64_t more_ns)
{
    return more_ns > UINT64_MAX - start_ns ? UINT64_MAX : start_ns + more_ns;
}

static VG_BARE struct timespec span(uint64_t ns)
{
    /* A century is for ever, and never too much for the kernel. */
    uint64_t seconds = ns / 1000000000u;
    struct timespec t = {.tv_sec = (time_t)(seconds > 3000000000u ? 3000000000u : seconds),
                         .tv_nsec = (long)(ns % 1000000000u)};
    return t;
}

/* The empty asm keeps the compiler from making a call to strlen or memcpy of these loops. */
#define STAY_A_LOOP() __asm__ volatile("" ::: "memory")

static VG_BARE size_t length(const char *s)
{
    size_t n = 0;
    for (; s[n] != '\0'; n++)
        STAY_A_LOOP();
    return n;
}

static VG_BARE bool starts_with(const char *s, const char *prefix)
{
    for (; *prefix != '\0'; s++, prefix++) {
        if (*s != *prefix)
            return false;
    }
    return true;
}

/* --- the tool's side of the vfork --- */

/* Only here: the kernel gives a new oom_score_adj to every process that shares the memory, unless
 * it is a vfork child. In the keeper this line would make the program itself the OOM killer's first
 * choice. */
static VG_BARE void be_killed_first(void)
{
    static const char most[] = "1000";
    long fd = VG_CALL(openat, AT_FDCWD, "/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
    if (fd < 0)
        return;
    VG_CALL(write, fd, most, sizeof most - 1);
    VG_CALL(close, fd);
}

static VG_BARE void tool_main(void *arg)
{
    struct slot *s = arg;
    uint64_t none = 0;
    be_killed_first();
    VG_CALL(rt_sigprocmask, SIG_SETMASK, &none, NULL, sizeof none);
    s->exec_error = (int)-VG_CALL(execve, s->tool, s->argv, s->envp);
    for (;;)
        VG_CALL(exit_group, 127);
}

/* --- the keeper --- */

struct kernel_sigaction { /* as both machines' kernels lay it out */
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
};

/* No handler of the program may run in the tool's task before exec, where the mask is clear and the
 * memory the program's. What is ignored stays so, as over any exec; but an ignored SIGCHLD would
 * lose the tool's status. */
static VG_BARE void forget_handlers(void)
{
    static const struct kernel_sigaction standard;
    for (int sig = 1; sig <= 64; sig++) {
        struct kernel_sigaction old;
        old.handler = SIG_DFL;
        VG_CALL(rt_sigaction, sig, NULL, &old, sizeof old.mask);
        if (old.handler != SIG_DFL && (old.handler != SIG_IGN || sig == SIGCHLD))
            VG_CALL(rt_sigaction, sig, &standard, NULL, sizeof standard.mask);
    }
}

struct kernel_dirent {
    uint64_t inode;
    int64_t offset;
    uint16_t bytes;
    uint8_t type;
    char name[];
};

/* Closes what one reading of the directory lists; returns how many. */
static VG_BARE int close_listed(long dir, long first)
{
    union {
        struct kernel_dirent align;
        char bytes[2048];
    } buffer;
    int closed = 0;
    long got;
    while ((got = VG_CALL(getdents64, dir, &buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < got;) {
            const struct kernel_dirent *e = (const void *)(buffer.bytes + at);
            long fd = 0;
            const char *c = e->name;
            for (; *c >= '0' && *c <= '9'; c++)
                fd = fd * 10 + (*c - '0');
            if (c != e->name && fd >= first && fd != dir && VG_CALL(close, fd) == 0)
                closed++;
            at += e->bytes;
        }
    }
    return closed;
}

/* A descriptor left open here would keep a pipe of the program from ending, or a file's space from
 * being freed. */
static VG_BARE void close_from(long first)
{
#ifdef SYS_close_range
    if (VG_CALL(close_range, first, ~0u, 0) == 0)
        return;
#endif
    /* Linux before 5.9, or a seccomp filter older than that. */
    long dir = VG_CALL(openat, AT_FDCWD, "/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (dir >= 0) {
        while (close_listed(dir, first) > 0)
            VG_CALL(lseek, dir, 0, 0 /* SEEK_SET */);
        VG_CALL(close, dir);
        return;
    }
    for (long fd = first; fd < 65536; fd++)
        VG_CALL(close, fd);
}

/* This table is the keeper's own copy: the program's descriptors are not touched. */
static VG_BARE void keep_descriptors(int incident_fd)
{
    bool has_incident = false;
    if (incident_fd == VG_KEEPER_TOOL_FD)
        has_incident = VG_CALL(fcntl, incident_fd, F_SETFD, 0) == 0;
    else if (incident_fd >= 0)
        has_incident = VG_CALL(dup3, incident_fd, VG_KEEPER_TOOL_FD, 0) >= 0;
    close_from(has_incident ? VG_KEEPER_TOOL_FD + 1 : VG_KEEPER_TOOL_FD);
    VG_CALL(close, 0);
    VG_CALL(close, 1);
    if (incident_fd == 2)
        VG_CALL(close, 2);
    /* Something harmless in 0 and 1, and in 2 where the program has none: the first file the tool
     * opens must not become its standard output. */
    long null = VG_CALL(openat, AT_FDCWD, "/dev/null", O_RDWR);
    if (null == 0)
        VG_CALL(dup3, 0, 1, 0);
    if (VG_CALL(fcntl, 2, F_SETFD, 0) < 0 && null == 0)
        VG_CALL(dup3, 0, 2, 0);
}

/* Whose child am I? Another's as soon as the program has ended, whatever its pid is used for then.
 * Where the program is PID 1 of its namespace its end is ours anyway. */
static VG_BARE bool program_lives(const struct slot *s)
{
    return VG_CALL(getppid, 0) == s->owner;
}

/* Sleeps until a child ends or it is time to look again. SIGCHLD is blocked, so it waits in the
 * queue for this. */
static VG_BARE void sleep_until_child(uint64_t at_most_ns)
{
    uint64_t sigchld = UINT64_C(1) << (SIGCHLD - 1);
    struct timespec t = span(at_most_ns < VG_KEEPER_LOOK_NS ? at_most_ns : VG_KEEPER_LOOK_NS);
    VG_CALL(rt_sigtimedwait, &sigchld, NULL, &t, sizeof sigchld);
}

static VG_BARE enum vg_keeper_result watch_tool(struct slot *s, long tool, uint64_t deadline_ns)
{
    for (;;) {
        int status = 0;
        long rc = VG_CALL(wait4, tool, &status, WNOHANG, NULL);
        if (rc == tool) {
            s->tool_status = status;
            return status == 0 && s->exec_error == 0 ? VG_KEEPER_DONE : VG_KEEPER_FAILED;
        }
        uint64_t now = now_ns();
        if (rc < 0 || now >= deadline_ns || !program_lives(s)) {
            VG_CALL(kill, tool, SIGKILL);
            while (VG_CALL(wait4, tool, &status, 0, NULL) == -EINTR)
                continue;
            return VG_KEEPER_TIMEOUT;
        }
        sleep_until_child(deadline_ns - now);
    }
}

/* What the tool left behind (a program it started, then the limit) came to us, the nearest
 * subreaper; without us it would come to the program where that is PID 1 or a subreaper itself. The
 * result is out; the keeper stays until they have ended. */
static VG_BARE void wait_for_orphans(struct slot *s)
{
    long rc;
    while ((rc = VG_CALL(wait4, -1, NULL, WNOHANG | __WALL, NULL)) >= 0) {
        if (rc > 0)
            continue;
        if (atomic_load(&s->word) == RUNNING) {
            atomic_store(&s->word, LINGERING);
            VG_CALL(futex, &s->word, FUTEX_WAKE, INT32_MAX);
        }
        if (!program_lives(s))
            return;
        sleep_until_child(VG_KEEPER_LOOK_NS);
    }
}

static VG_BARE void keeper_main(void *arg)
{
    struct slot *s = arg;
    uint64_t deadline_ns = later(now_ns(), s->timeout_ns);
    keep_descriptors(s->incident_fd);
    forget_handlers();
    VG_CALL(prctl, PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
    /* The upper stack is the keeper's, which sleeps until exec; the lower the tool's. */
    char *stack_top = s->map + VG_KEEPER_GUARD_BYTES + VG_KEEPER_STACK_BYTES / 2;
    long tool = vg_raw_clone(CLONE_VM | CLONE_VFORK | SIGCHLD, stack_top, tool_main, s, NULL, NULL);
    int outcome = VG_KEEPER_UNAVAILABLE;
    if (tool > 0)
        outcome = watch_tool(s, tool, deadline_ns);
    atomic_store(&s->outcome, outcome);
    wait_for_orphans(s);
    for (;;)
        VG_CALL(exit_group, 0);
}

/* --- what the keeper needs, copied into its own mapping --- */

struct arena {
    char *at;
    char *end;
};

static VG_BARE bool is_wanted(const char *variable)
{
    return !starts_with(variable, "LD_") && !starts_with(variable, "VRAMGUARD_") &&
           !starts_with(variable, "DEBUGINFOD_URLS=");
}

static VG_BARE size_t list_bytes(char *const *list, size_t *count_out)
{
    size_t bytes = 0, count = 0;
    for (; list != NULL && list[count] != NULL; count++)
        bytes += length(list[count]) + 1;
    *count_out = count;
    return bytes + (count + 1) * sizeof(char *);
}

static VG_BARE char *put_string(struct arena *a, const char *s)
{
    char *copy = a->at;
    for (size_t i = 0; a->at < a->end; i++) {
        STAY_A_LOOP();
        *a->at++ = s[i];
        if (s[i] == '\0')
            return copy;
    }
    return NULL;
}

/* At most `count` entries: another thread may change the environment since it was measured. */
static VG_BARE char **put_list(struct arena *a, char *const *list, size_t count,
                               bool is_environment)
{
    char **copy = (char **)(void *)a->at;
    size_t kept = 0;
    a->at += (count + 1) * sizeof(char *);
    for (size_t i = 0; i < count && list[i] != NULL; i++) {
        if (is_environment && !is_wanted(list[i]))
            continue;
        copy[kept] = put_string(a, list[i]);
        if (copy[kept] != NULL)
            kept++;
    }
    copy[kept] = NULL;
    return copy;
}

/* The mapping: a guard, the tool's stack, the keeper's stack, thread-local storage for whoever asks
 * for it, the lists. */
static VG_BARE bool pack(struct slot *s, const struct vg_keeper_job *job)
{
    size_t arg_count, env_count;
    size_t lists = list_bytes(job->argv, &arg_count) + list_bytes(job->envp, &env_count) +
                   length(job->tool) + 1;
    size_t head = VG_KEEPER_GUARD_BYTES + VG_KEEPER_STACK_BYTES;
    size_t bytes = (head + VG_KEEPER_TLS_BYTES + lists + sizeof(char *) + 0xffff) & ~(size_t)0xffff;
    long at =
        VG_CALL(mmap, NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (at < 0 && at > -4096)
        return false;
    s->map = (char *)at;
    s->map_bytes = bytes;
    if (VG_CALL(mprotect, s->map + VG_KEEPER_GUARD_BYTES, bytes - VG_KEEPER_GUARD_BYTES,
                PROT_READ | PROT_WRITE) != 0) {
        VG_CALL(munmap, s->map, bytes);
        return false;
    }
    s->tls = s->map + head + VG_KEEPER_TLS_BYTES / 2;
    struct arena a = {s->map + head + VG_KEEPER_TLS_BYTES, s->map + bytes};
    s->argv = put_list(&a, job->argv, arg_count, false);
    /* After odd strings the pointers need their alignment back. */
    a.at = (char *)(((uintptr_t)a.at + sizeof(char *) - 1) & ~(uintptr_t)(sizeof(char *) - 1));
    s->envp = put_list(&a, job->envp, env_count, true);
    s->tool = put_string(&a, job->tool);
    s->incident_fd = job->incident_fd;
    s->ended_out = job->wait ? NULL : job->ended_out;
    s->timeout_ns = job->timeout_ns;
    return true;
}

/* --- the program's side --- */

static VG_BARE struct slot *claim_slot(void)
{
    for (int i = 0; i < VG_KEEPER_MAX; i++) {
        int state = FREE;
        if (atomic_compare_exchange_strong(&keeper.slots[i].state, &state, BUSY))
            return &keeper.slots[i];
    }
    return NULL;
}

/* All signals wait while the keeper is made, so that it starts with all of them blocked and runs no
 * handler of the program. */
static VG_BARE bool start_keeper(struct slot *s)
{
    uint64_t all = ~UINT64_C(0), before = 0;
    s->owner = VG_CALL(getpid, 0);
    s->tool_status = 0;
    s->exec_error = 0;
    atomic_store(&s->outcome, VG_KEEPER_FAILED);
    atomic_store(&s->word, RUNNING);
    /* The first word of the block is its own address, as this machine's C code would expect. */
    *(char **)(void *)s->tls = s->tls;
    char *stack_top = s->map + VG_KEEPER_GUARD_BYTES + VG_KEEPER_STACK_BYTES;
    VG_CALL(rt_sigprocmask, SIG_SETMASK, &all, &before, sizeof all);
    s->keeper = vg_raw_clone(CLONE_VM | CLONE_SETTLS | CLONE_CHILD_CLEARTID, stack_top, keeper_main,
                             s, s->tls, &s->word);
    VG_CALL(rt_sigprocmask, SIG_SETMASK, &before, NULL, sizeof before);
    if (s->keeper > 0)
        return true;
    atomic_store(&s->word, ENDED);
    return false;
}

/* Returns the word as it is once it is no longer RUNNING, or at the deadline. Signal handlers of
 * the program run meanwhile. Not a private futex: the kernel's own wake-up at the keeper's end is a
 * shared one. */
static VG_BARE uint32_t await_word(struct slot *s, uint64_t deadline_ns)
{
    uint32_t word;
    while ((word = atomic_load(&s->word)) == RUNNING) {
        uint64_t now = now_ns();
        if (now >= deadline_ns)
            break;
        struct timespec t = span(deadline_ns - now);
        VG_CALL(futex, &s->word, FUTEX_WAIT, RUNNING, &t);
    }
    return word;
}

/* For the slot's holder. ECHILD: a waitpid(-1, __WALL) of the program was faster; then the word
 * tells that the keeper has ended, and where it does not the slot is lost rather than a living
 * keeper's stack. */
static VG_BARE void reap_or_leave(struct slot *s)
{
    int how = __WALL | (atomic_load(&s->word) == ENDED ? 0 : WNOHANG);
    long rc;
    do {
        rc = VG_CALL(wait4, s->keeper, NULL, how, NULL);
    } while (rc == -EINTR);
    if (rc == s->keeper || (rc < 0 && atomic_load(&s->word) == ENDED)) {
        VG_CALL(munmap, s->map, s->map_bytes);
        if (s->ended_out != NULL)
            atomic_store(s->ended_out, 1 + atomic_load(&s->outcome));
        atomic_store(&s->state, FREE);
    } else {
        atomic_store(&s->state, PENDING);
    }
}

void VG_BARE vg_keeper_reap(void)
{
    long self = VG_CALL(getpid, 0);
    for (int i = 0; i < VG_KEEPER_MAX; i++) {
        struct slot *s = &keeper.slots[i];
        int state = PENDING;
        if (!atomic_compare_exchange_strong(&s->state, &state, BUSY))
            continue;
        /* In a forked child the keeper is the parent's; in a vfork child even the table is. */
        if (s->owner == self)
            reap_or_leave(s);
        else
            atomic_store(&s->state, PENDING);
    }
}

enum vg_keeper_result VG_BARE vg_keeper_run(const struct vg_keeper_job *job, int *tool_status_out)
{
    vg_keeper_reap();
    struct slot *s = claim_slot();
    if (s == NULL)
        return VG_KEEPER_UNAVAILABLE;
    if (!pack(s, job)) {
        atomic_store(&s->state, FREE);
        return VG_KEEPER_UNAVAILABLE;
    }
    if (!start_keeper(s)) {
        VG_CALL(munmap, s->map, s->map_bytes);
        atomic_store(&s->state, FREE);
        return VG_KEEPER_UNAVAILABLE;
    }
    if (!job->wait) {
        atomic_store(&s->state, PENDING);
        return VG_KEEPER_STARTED;
    }
    /* The grace is for a tool that even SIGKILL does not end at once (a hung file system). */
    uint64_t deadline_ns = later(later(now_ns(), job->timeout_ns), VG_KEEPER_GRACE_NS);
    enum vg_keeper_result result = VG_KEEPER_TIMEOUT;
    if (await_word(s, deadline_ns) != RUNNING) {
        result = (enum vg_keeper_result)atomic_load(&s->outcome);
        if (tool_status_out != NULL && (result == VG_KEEPER_DONE || result == VG_KEEPER_FAILED))
            *tool_status_out = s->tool_status;
    }
    reap_or_leave(s);
    return result;
}

void VG_BARE vg_keeper_wait_all(uint64_t timeout_ns)
{
    uint64_t deadline_ns = later(now_ns(), timeout_ns);
    long self = VG_CALL(getpid, 0);
    for (int i = 0; i < VG_KEEPER_MAX; i++) {
        struct slot *s = &keeper.slots[i];
        if (atomic_load(&s->state) != FREE && s->owner == self)
            await_word(s, deadline_ns);
    }
    vg_keeper_reap();
}
