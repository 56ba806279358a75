/* shared.c -- the file of VGSIM_SHARED: joining, reaping the dead, and what the others use.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/common/shared.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct {
    pthread_once_t once;
    struct vgsim_shared *file;
} state = {.once = PTHREAD_ONCE_INIT};

/* --- the file --------------------------------------------------------------------------------- */

static void set_up(struct vgsim_shared *file)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&file->lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
    file->size = sizeof *file;
    file->magic = VGSIM_SHARED_MAGIC;
}

/* The first one to come sets it up; the others wait for it at the file's lock. */
static struct vgsim_shared *map_locked(int fd)
{
    struct stat info;
    if (fstat(fd, &info))
        return NULL;
    bool fresh = info.st_size == 0;
    if (fresh && ftruncate(fd, sizeof(struct vgsim_shared)))
        return NULL;
    errno = EINVAL;
    if (!fresh && info.st_size != (off_t)sizeof(struct vgsim_shared))
        return NULL;
    struct vgsim_shared *file = mmap(NULL, sizeof *file, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (file == MAP_FAILED)
        return NULL;
    if (fresh)
        set_up(file);
    if (file->magic == VGSIM_SHARED_MAGIC && file->size == sizeof *file)
        return file;
    munmap(file, sizeof *file);
    errno = EINVAL;
    return NULL;
}

static void open_file(void)
{
    const char *path = vgsim_knobs()->shared;
    if (!path)
        return;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && !flock(fd, LOCK_EX))
        state.file = map_locked(fd);
    if (!state.file)
        fprintf(stderr, "vgsim: VGSIM_SHARED=%s: %s; nothing is shared\n", path, strerror(errno));
    if (fd >= 0) {
        flock(fd, LOCK_UN); /* the mapping keeps the open file, and with it the lock */
        close(fd);
    }
}

struct vgsim_shared *vgsim_shared_open(void)
{
    pthread_once(&state.once, open_file);
    return state.file;
}

void vgsim_shared_lock(struct vgsim_shared *shared)
{
    if (pthread_mutex_lock(&shared->lock) == EOWNERDEAD)
        pthread_mutex_consistent(&shared->lock);
}

void vgsim_shared_unlock(struct vgsim_shared *shared)
{
    pthread_mutex_unlock(&shared->lock);
}

/* --- who lives -------------------------------------------------------------------------------- */

/* When the process started, in the kernel's ticks; 0: there is none, or it only waits to be waited
 * for. */
static uint64_t start_of(int32_t pid)
{
    char path[32], text[1024];
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t length = read(fd, text, sizeof text - 1);
    close(fd);
    if (length <= 0)
        return 0;
    text[length] = '\0';
    const char *at = strrchr(text, ')'); /* the name may hold anything, this too */
    char status;
    unsigned long long start;
    if (!at || sscanf(at + 1,
                      " %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d "
                      "%*d %llu",
                      &status, &start) != 2)
        return 0;
    return status == 'Z' || status == 'X' ? 0 : start;
}

struct vgsim_shared_process *vgsim_shared_join(struct vgsim_shared *shared)
{
    struct vgsim_shared_process *free_one = NULL;
    int32_t pid = getpid();
    vgsim_shared_reap(shared);
    for (int i = 0; i < VGSIM_SHARED_PROCESSES; i++) {
        struct vgsim_shared_process *process = &shared->process[i];
        if (process->pid == pid) { /* of the program that exec replaced */
            free_one = process;
            break;
        }
        if (!process->pid && !free_one)
            free_one = process;
    }
    if (!free_one)
        return NULL;
    *free_one = (struct vgsim_shared_process){.pid = pid, .start = start_of(pid)};
    shared->generation++;
    return free_one;
}

bool vgsim_shared_is_open(const struct vgsim_shared *shared, uint64_t inode)
{
    for (int i = 0; i < VGSIM_SHARED_PROCESSES; i++)
        for (int j = 0; shared->process[i].pid && j < VGSIM_SHARED_OPENS; j++)
            if (shared->process[i].opens[j] == inode)
                return true;
    return false;
}

void vgsim_shared_reap(struct vgsim_shared *shared)
{
    for (int i = 0; i < VGSIM_SHARED_PROCESSES; i++) {
        struct vgsim_shared_process *process = &shared->process[i];
        if (process->pid && start_of(process->pid) != process->start) {
            process->pid = 0;
            shared->generation++;
        }
    }
    for (int i = 0; i < VGSIM_SHARED_ORPHANS; i++) {
        struct vgsim_shared_orphan *orphan = &shared->orphan[i];
        if (orphan->inode && !vgsim_shared_is_open(shared, orphan->inode)) {
            orphan->inode = 0;
            shared->generation++;
        }
    }
}

uint64_t vgsim_shared_bytes(const struct vgsim_shared *shared,
                            const struct vgsim_shared_process *ours, int device)
{
    uint64_t bytes = 0;
    for (int i = 0; i < VGSIM_SHARED_PROCESSES; i++) {
        const struct vgsim_shared_process *process = &shared->process[i];
        if (process->pid && process != ours)
            bytes += process->device[device].context_bytes + process->device[device].page_bytes;
    }
    for (int i = 0; i < VGSIM_SHARED_ORPHANS; i++)
        if (shared->orphan[i].inode && shared->orphan[i].device == device)
            bytes += shared->orphan[i].bytes;
    return bytes;
}
