/* main.c -- vgsim-account: the simulation's own books (VGSIM_ACCOUNT) as JSON.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      reads the mapped file; the processes that write it may be running, ended or killed.
 */
#include "tests/sim/common/books.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static const char help[] =
    "usage: vgsim-account PATH\n"
    "Prints the books that simulated drivers keep in the file PATH (VGSIM_ACCOUNT) as JSON:\n"
    "{\"processes\": [{\"pid\", \"running\", \"devices\": [{\"device\", ..., \"kinds\": "
    "{...}}]}]}\n"
    "Keys of a device, all for this process unless said otherwise:\n"
    "  total_bytes, free_bytes      what cuMemGetInfo says\n"
    "  others_bytes, hidden_bytes   VGSIM_OTHER and VGSIM_HIDDEN, of the device\n"
    "  shared_bytes                 what other processes of VGSIM_SHARED use\n"
    "  context_bytes                what the live contexts cost\n"
    "  pages, page_bytes            2 MiB pages in use, in all\n"
    "  peak_bytes                   the most that context_bytes + page_bytes ever were\n"
    "  peak_requested_bytes         the most that requested_bytes of device, pool, vmm,\n"
    "                               array, mipmap and graph together ever were\n"
    "  pool_reserved_bytes          pages that memory pools hold, in use or idle\n"
    "  graph_reserved_bytes         pages that the device's graph pool holds, in use or idle\n"
    "  graph_used_bytes             of these, what live graph allocations and executable graphs "
    "map\n"
    "  contexts, streams, events, modules (and libraries), pools, ipc_open, multicast, graphs,\n"
    "  graph_execs                  live ones\n"
    "  objects                      the same: live, created, destroyed\n"
    "  failed_allocations           calls refused for want of memory\n"
    "  kinds                        device (plain and pitched), managed, pinned, registered, "
    "pool,\n"
    "                               vmm, array, mipmap, graph; aliases: ipc, external, imported;\n"
    "                               vmm_host (cuMemCreate on the host):\n"
    "    requested_bytes            as asked for (pitched: pitch x height; vmm: by handle; array "
    "and\n"
    "                               mipmap: their memory requirements), live\n"
    "    live_blocks                how many are live\n"
    "    allocations                how many there ever were\n"
    "free_bytes = total_bytes - others_bytes - hidden_bytes - shared_bytes - context_bytes -\n"
    "page_bytes, not below 0.\n";

static const char *const kind_names[] = {
#define KIND(name) #name,
    VGSIM_KINDS(KIND)
#undef KIND
};

static const char *const counted_names[] = {
#define COUNTED(name) #name,
    VGSIM_COUNTED(COUNTED)
#undef COUNTED
};

/* The copy that is complete; again if the writer went on meanwhile. */
static bool read_device(const struct vgsim_device_slot *slot, struct vgsim_device_books *out)
{
    uint64_t seq, after;
    do {
        seq = atomic_load_explicit(&slot->seq, memory_order_acquire);
        *out = slot->copy[seq & 1];
        atomic_thread_fence(memory_order_acquire);
        after = atomic_load_explicit(&slot->seq, memory_order_relaxed);
    } while (seq != after);
    return seq != 0;
}

static void print_device(int index, const struct vgsim_device_books *books)
{
    printf("{\"device\": %d", index);
#define FIELD(name) printf(", \"%s\": %" PRIu64, #name, books->name);
    FIELD(total_bytes)
    FIELD(free_bytes)
    FIELD(others_bytes)
    FIELD(hidden_bytes)
    FIELD(shared_bytes)
    FIELD(context_bytes)
    FIELD(pages)
    FIELD(page_bytes)
    FIELD(peak_bytes)
    FIELD(peak_requested_bytes)
    FIELD(pool_reserved_bytes)
    FIELD(graph_reserved_bytes)
    FIELD(graph_used_bytes)
    FIELD(failed_allocations)
#undef FIELD
    for (int i = 0; i < VGSIM_COUNTED_COUNT; i++)
        printf(", \"%s\": %" PRIu64, counted_names[i], books->objects[i].live);
    printf(", \"objects\": {");
    for (int i = 0; i < VGSIM_COUNTED_COUNT; i++)
        printf("%s\"%s\": {\"live\": %" PRIu64 ", \"created\": %" PRIu64 ", \"destroyed\": %" PRIu64
               "}",
               i ? ", " : "", counted_names[i], books->objects[i].live, books->objects[i].created,
               books->objects[i].destroyed);
    printf("}, \"kinds\": {");
    for (int i = 0; i < VGSIM_KIND_COUNT; i++)
        printf("%s\"%s\": {\"requested_bytes\": %" PRIu64 ", \"live_blocks\": %" PRIu64
               ", \"allocations\": %" PRIu64 "}",
               i ? ", " : "", kind_names[i], books->kinds[i].requested_bytes,
               books->kinds[i].live_blocks, books->kinds[i].allocations);
    printf("}}");
}

static void print_process(const struct vgsim_process_slot *slot, int pid)
{
    struct vgsim_device_books books;
    bool running = kill(pid, 0) == 0 || errno != ESRCH;
    int printed = 0;
    printf("{\"pid\": %d, \"running\": %s, \"devices\": [", pid, running ? "true" : "false");
    for (int i = 0; i < slot->devices && i < VGSIM_MAX_DEVICES; i++)
        if (read_device(&slot->device[i], &books)) {
            printf("%s", printed++ ? ",\n  " : "\n  ");
            print_device(i, &books);
        }
    printf("]}");
}

static const struct vgsim_books *map_file(const char *path, const char **error_out)
{
    struct stat info;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0 || fstat(fd, &info)) {
        *error_out = strerror(errno);
        return NULL;
    }
    *error_out = "not a file of VGSIM_ACCOUNT";
    if (!S_ISREG(info.st_mode) || info.st_size < (off_t)sizeof(struct vgsim_books))
        return NULL;
    struct vgsim_books *books = mmap(NULL, sizeof *books, PROT_READ, MAP_SHARED, fd, 0);
    if (books == MAP_FAILED) {
        *error_out = strerror(errno);
        return NULL;
    }
    if (atomic_load(&books->magic) != VGSIM_BOOKS_MAGIC || books->size != sizeof *books)
        return NULL;
    return books;
}

int main(int argc, char **argv)
{
    const char *error;
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return 0;
    }
    if (argc != 2 || argv[1][0] == '-') {
        fputs(help, stderr);
        return 2;
    }
    const struct vgsim_books *books = map_file(argv[1], &error);
    if (!books) {
        fprintf(stderr, "vgsim-account: %s: %s\n", argv[1], error);
        return 2;
    }
    int printed = 0;
    printf("{\"processes\": [");
    for (int i = 0; i < VGSIM_BOOKS_PROCESSES; i++) {
        int pid = atomic_load(&books->process[i].pid);
        if (pid) {
            printf("%s", printed++ ? ",\n" : "\n");
            print_process(&books->process[i], pid);
        }
    }
    printf("]}\n");
    return fflush(stdout) || ferror(stdout) ? 1 : 0;
}
