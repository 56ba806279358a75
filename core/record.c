/* record.c -- the record file as its one writer sees it.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:  every mapped page has its block on the disk before it is mapped: a store into a hole of a
 *         full disk is SIGBUS. Only what is at or above header->file_bytes is free for new chunks;
 *         chunks never move.
 */
#include "core/record.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Programs hand their own descriptors around by number: ours stays out of the way of the small
 * ones. */
enum { STEP = 1024 * 1024, LOWEST_DESCRIPTOR = 512, INTERRUPTIONS = 100 };
enum { HEADER_PAGES = (sizeof(struct vg_header) + VG_PAGE - 1) / VG_PAGE };

static const struct {
    uint32_t elem_bytes, base_count;
    uint32_t saturated;
} shapes[VG_SEC_COUNT] = {
#define SECTION(NAME, name, element, base_count, saturated)                                        \
    {sizeof(element), base_count, VG_SAT_##saturated},
#include "core/sections.def"
};

/* The system call itself: libc's fstat is GLIBC_2.33. Both architectures have one layout of struct
 * stat. */
static bool identify(int fd, uint64_t *device_out, uint64_t *inode_out)
{
    struct stat st;
    if (syscall(SYS_fstat, fd, &st) != 0) {
        return false;
    }
    *device_out = (uint64_t)st.st_dev;
    *inode_out = (uint64_t)st.st_ino;
    return true;
}

static bool is_ours(const struct vg_record *record)
{
    uint64_t device, inode;
    return identify(record->fd, &device, &inode) && device == record->device &&
           inode == record->inode;
}

/* A write past RLIMIT_FSIZE is SIGXFSZ, for a memfd too. */
static bool may_reach(uint64_t end)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        end > limit.rlim_cur) {
        errno = EFBIG;
        return false;
    }
    return true;
}

static bool write_zeros(int fd, uint64_t from, uint64_t end)
{
    static const uint8_t zeros[16 * 1024];
    int interruptions = 0;
    while (from < end) {
        size_t n = end - from < sizeof zeros ? (size_t)(end - from) : sizeof zeros;
        ssize_t done = pwrite(fd, zeros, n, (off_t)from);
        if (done > 0) {
            from += (uint64_t)done;
        } else if (done == 0 || errno != EINTR || ++interruptions > INTERRUPTIONS) {
            return false;
        }
    }
    return true;
}

static bool give_blocks(int fd, uint64_t from, uint64_t end)
{
    for (int i = 0; i < INTERRUPTIONS; i++) {
        if (fallocate(fd, 0, (off_t)from, (off_t)(end - from)) == 0) {
            return true;
        }
        if (errno != EINTR) {
            break;
        }
    }
    bool unsupported = errno == EOPNOTSUPP || errno == ENOSYS || errno == EINTR || errno == EINVAL;
    return unsupported && write_zeros(fd, from, end);
}

static bool extend_to(struct vg_record *record, uint64_t end)
{
    uint64_t from = record->mapped_bytes;
    if (!is_ours(record)) {
        errno = EBADF;
        return false;
    }
    if (!may_reach(end) || !give_blocks(record->fd, from, end)) {
        return false;
    }
    size_t bytes = (size_t)(end - from);
    void *at = mmap(record->base + from, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                    record->fd, (off_t)from);
    if (at == MAP_FAILED) {
        /* The reservation may be gone there and may become somebody else's: it is ours no more. */
        record->limit_bytes = from;
        return false;
    }
    madvise(at, bytes, MADV_DONTFORK);
    record->mapped_bytes = end;
    return true;
}

/* libc's file calls are cancellation points: a thread that is cancelled in one would take the
 * ledger lock with it. errno is kept. */
static int forbid_cancellation(void)
{
    int was = PTHREAD_CANCEL_ENABLE;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
    return was;
}

static void allow_cancellation(int was)
{
    int kept = errno;
    pthread_setcancelstate(was, NULL);
    errno = kept;
}

/* Has everything below `end` mapped. In steps; where a whole step is not to be had, what is needed
 * now. */
static bool have_room(struct vg_record *record, uint64_t end)
{
    if (end <= record->mapped_bytes) {
        return true;
    }
    if (record->stuck || end > record->limit_bytes) {
        errno = ENOSPC;
        return false;
    }
    uint64_t step_end = (end + STEP - 1) / STEP * STEP;
    if (step_end > record->limit_bytes) {
        step_end = record->limit_bytes;
    }
    int cancel = forbid_cancellation();
    bool done = extend_to(record, step_end) || (end < step_end && extend_to(record, end));
    allow_cancellation(cancel);
    record->stuck = !done;
    record->stuck_error = done ? 0 : errno;
    return done;
}

/* Address space for all that the file may become. Where that is limited (RLIMIT_AS), half of it,
 * and so on. */
static bool reserve_addresses(struct vg_record *record, uint64_t limit_bytes)
{
    for (uint64_t bytes = limit_bytes; bytes >= STEP; bytes = bytes / 2 / VG_PAGE * VG_PAGE) {
        void *base = mmap(NULL, (size_t)bytes, PROT_NONE,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (base != MAP_FAILED) {
            madvise(base, (size_t)bytes, MADV_DONTFORK);
            record->base = base;
            record->limit_bytes = bytes;
            return true;
        }
    }
    return false;
}

static int make_file(const char *path)
{
    int fd = path ? open(path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600)
                  : memfd_create("vramguard", MFD_CLOEXEC);
    if (fd < 0) {
        return -1;
    }
    int high = fcntl(fd, F_DUPFD_CLOEXEC, LOWEST_DESCRIPTOR);
    if (high < 0 && fd <= STDERR_FILENO) {
        high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    }
    if (high < 0) {
        return fd;
    }
    close(fd);
    return high;
}

/* With less than the first chunk of every section nothing could be listed: then there is no
 * record. */
static uint64_t least_bytes(void)
{
    uint64_t bytes = (uint64_t)HEADER_PAGES * VG_PAGE;
    for (int s = 0; s < VG_SEC_COUNT; s++) {
        bytes += vg_chunk_bytes(shapes[s].elem_bytes, shapes[s].base_count, 0);
    }
    return bytes;
}

static void fill_header(struct vg_record *record)
{
    struct vg_header *header = (struct vg_header *)record->base;
    record->header = header;
    header->version = VG_VERSION;
    header->header_bytes = sizeof *header;
    header->limit_bytes = record->limit_bytes;
    header->rank = -1;
    for (int s = 0; s < VG_SEC_COUNT; s++) {
        header->section[s].elem_bytes = shapes[s].elem_bytes;
        header->section[s].base_count = shapes[s].base_count;
    }
    atomic_store_explicit(&header->file_bytes, (uint64_t)HEADER_PAGES * VG_PAGE,
                          memory_order_release);
    atomic_thread_fence(memory_order_release);
    memcpy(header->magic, VG_MAGIC, sizeof header->magic);
}

enum vg_status vg_record_create(struct vg_record *record, const char *path, uint64_t limit_bytes)
{
    *record = (struct vg_record){.fd = -1, .memory_only = !path};
    limit_bytes = limit_bytes < STEP ? STEP : limit_bytes / VG_PAGE * VG_PAGE;
    if (!reserve_addresses(record, limit_bytes)) {
        return VG_IO;
    }
    record->fd = make_file(path);
    if (record->fd < 0 || !identify(record->fd, &record->device, &record->inode) ||
        !have_room(record, least_bytes())) {
        int why = errno;
        if (record->fd >= 0 && path) {
            unlink(path);
        }
        vg_record_close(record);
        errno = why;
        return VG_IO;
    }
    fill_header(record);
    return VG_OK;
}

void vg_record_close(struct vg_record *record)
{
    if (record->base) {
        munmap(record->base, (size_t)record->limit_bytes);
    }
    /* The program may have closed it and own the number by now. */
    if (record->fd >= 0 && is_ours(record)) {
        close(record->fd);
    }
    *record = (struct vg_record){.fd = -1};
}

static uint8_t *place(const struct vg_record *record, const struct vg_section *section,
                      uint64_t index)
{
    uint32_t k = vg_chunk_of(section->base_count, index);
    uint64_t within = index - vg_chunk_first(section->base_count, k);
    return record->base + (uint64_t)section->page[k] * VG_PAGE + within * section->elem_bytes;
}

void *vg_record_at(const struct vg_record *record, enum vg_section_id id, uint64_t index)
{
    const struct vg_section *section = &record->header->section[id];
    if (index >= atomic_load_explicit(&section->count, memory_order_relaxed)) {
        return NULL;
    }
    return place(record, section, index);
}

const char *vg_record_string(const struct vg_record *record, uint32_t id)
{
    const uint32_t *text = id ? vg_record_at(record, VG_SEC_STRINGS, id - 1) : NULL;
    return text ? (const char *)(text + 1) : "";
}

uint64_t vg_record_count(const struct vg_record *record, enum vg_section_id id)
{
    return atomic_load_explicit(&record->header->section[id].count, memory_order_relaxed);
}

static bool add_chunk(struct vg_record *record, struct vg_section *section)
{
    struct vg_header *header = record->header;
    uint32_t k = section->chunk_count;
    if (k >= VG_CHUNKS_MAX) {
        return false;
    }
    uint64_t from = atomic_load_explicit(&header->file_bytes, memory_order_relaxed);
    uint64_t end = from + vg_chunk_bytes(section->elem_bytes, section->base_count, k);
    if (!have_room(record, end)) {
        return false;
    }
    section->page[k] = (uint32_t)(from / VG_PAGE);
    atomic_store_explicit(&header->file_bytes, end, memory_order_release);
    atomic_thread_fence(memory_order_release);
    section->chunk_count = k + 1;
    return true;
}

void *vg_record_reserve(struct vg_record *record, enum vg_section_id id, uint32_t n,
                        uint64_t *index_out)
{
    struct vg_section *section = &record->header->section[id];
    uint64_t index = atomic_load_explicit(&section->count, memory_order_relaxed);
    uint32_t base_count = section->base_count, k = vg_chunk_of(base_count, index);
    while (index + n > vg_chunk_first(base_count, k + 1) && k + 1 < VG_CHUNKS_MAX) {
        index = vg_chunk_first(base_count, ++k);
    }
    while (section->chunk_count <= k && add_chunk(record, section)) {
    }
    if (section->chunk_count <= k || index + n > UINT32_MAX - 1 ||
        index + n > vg_chunk_first(base_count, k + 1)) {
        record->header->saturated |= shapes[id].saturated;
        return NULL;
    }
    *index_out = index;
    return memset(place(record, section, index), 0, (size_t)n * section->elem_bytes);
}

void vg_record_publish(struct vg_record *record, enum vg_section_id id, uint64_t end_index)
{
    atomic_store_explicit(&record->header->section[id].count, end_index, memory_order_release);
}

void vg_record_begin(struct vg_record *record, uint64_t intent)
{
    struct vg_header *header = record->header;
    uint64_t seq = atomic_load_explicit(&header->seq, memory_order_relaxed);
    atomic_store_explicit(&header->intent, intent, memory_order_release);
    atomic_store_explicit(&header->seq, seq + 1, memory_order_release);
    atomic_thread_fence(memory_order_release);
    atomic_signal_fence(memory_order_seq_cst);
}

void vg_record_end(struct vg_record *record)
{
    struct vg_header *header = record->header;
    uint64_t seq = atomic_load_explicit(&header->seq, memory_order_relaxed);
    atomic_signal_fence(memory_order_seq_cst);
    atomic_store_explicit(&header->intent, 0, memory_order_release);
    atomic_store_explicit(&header->seq, seq + 1, memory_order_release);
}

static bool write_all(int fd, const uint8_t *bytes, uint64_t n)
{
    while (n) {
        ssize_t done = write(fd, bytes, (size_t)n);
        if (done < 0 && errno == EINTR) {
            continue;
        }
        if (done <= 0) {
            return false;
        }
        bytes += done;
        n -= (uint64_t)done;
    }
    return true;
}

static int copy_to_memory(const struct vg_record *record, uint64_t bytes)
{
    int fd = memfd_create("vramguard-copy", MFD_CLOEXEC);
    if (fd >= 0 && write_all(fd, record->base, bytes) && lseek(fd, 0, SEEK_SET) == 0) {
        return fd;
    }
    int why = errno;
    if (fd >= 0) {
        close(fd);
    }
    errno = why;
    return -1;
}

enum vg_status vg_record_copy(const struct vg_record *record, int *fd_out)
{
    uint64_t bytes = atomic_load_explicit(&record->header->file_bytes, memory_order_relaxed);
    if (!may_reach(bytes)) {
        return VG_IO;
    }
    int cancel = forbid_cancellation();
    int fd = copy_to_memory(record, bytes);
    allow_cancellation(cancel);
    if (fd < 0) {
        return VG_IO;
    }
    *fd_out = fd;
    return VG_OK;
}
