/* account.c -- the books in the file of VGSIM_ACCOUNT.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      common/books.h says how the file stays readable when its writer is killed.
 * Threads:    the driver's lock is held, so there is one writer per process; each process has its
 *             own slot.
 */
#include "tests/sim/driver/sim.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static struct vgsim_process_slot *our_slot;

static struct vgsim_books *map_file(const char *path)
{
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    if (fd < 0)
        return NULL;
    struct stat info;
    void *file = MAP_FAILED;
    /* Growing only: another process may just have written its books. */
    if (!fstat(fd, &info) && (info.st_size >= (off_t)sizeof(struct vgsim_books) ||
                              !ftruncate(fd, sizeof(struct vgsim_books))))
        file = mmap(NULL, sizeof(struct vgsim_books), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    int saved = errno;
    close(fd);
    errno = saved;
    return file == MAP_FAILED ? NULL : file;
}

static bool is_gone(int pid)
{
    return kill(pid, 0) < 0 && errno == ESRCH;
}

/* A free slot, this pid's (of an earlier process, or of the program that exec replaced); when the
 * file is full, one whose process has ended. */
static struct vgsim_process_slot *claim_slot(struct vgsim_books *books)
{
    int32_t pid = getpid();
    for (int i = 0; i < VGSIM_BOOKS_PROCESSES; i++)
        if (atomic_load(&books->process[i].pid) == pid)
            return &books->process[i];
    for (int i = 0; i < VGSIM_BOOKS_PROCESSES; i++) {
        int32_t none = 0;
        if (atomic_compare_exchange_strong(&books->process[i].pid, &none, pid))
            return &books->process[i];
    }
    for (int i = 0; i < VGSIM_BOOKS_PROCESSES; i++) {
        int32_t old = atomic_load(&books->process[i].pid);
        if (is_gone(old) && atomic_compare_exchange_strong(&books->process[i].pid, &old, pid))
            return &books->process[i];
    }
    return NULL;
}

void vgsim_account_open(const char *path, int devices)
{
    struct vgsim_books *books = map_file(path);
    if (!books) {
        fprintf(stderr, "vgsim: VGSIM_ACCOUNT=%s: %s; no books are kept\n", path, strerror(errno));
        return;
    }
    books->size = sizeof *books;
    atomic_store(&books->magic, VGSIM_BOOKS_MAGIC);
    our_slot = claim_slot(books);
    if (!our_slot) {
        fprintf(stderr, "vgsim: VGSIM_ACCOUNT=%s has no room; no books are kept\n", path);
        return;
    }
    our_slot->devices = devices;
}

void vgsim_account_publish(int device, const struct vgsim_device_books *books)
{
    if (!our_slot)
        return;
    struct vgsim_device_slot *slot = &our_slot->device[device];
    uint64_t seq = atomic_load_explicit(&slot->seq, memory_order_relaxed);
    slot->copy[(seq + 1) & 1] = *books;
    atomic_store_explicit(&slot->seq, seq + 1, memory_order_release);
}
