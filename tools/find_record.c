/* find_record.c -- from what a user names to an open record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:      cmd_report.c, run_summary.c -> here -> descriptors for core/view.h
 * Not here:   what is in a record; only its name and who has it mapped.
 */
#include "tools/find_record.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <time.h>
#include <unistd.h>

#include "core/view.h"
#include "tools/alloc.h"
#include "tools/cli.h"

static bool ends_with(const char *text, const char *end)
{
    size_t length = strlen(text), end_length = strlen(end);
    return length >= end_length && !strcmp(text + length - end_length, end);
}

/* --- names ------------------------------------------------------------------------------------ */

bool vg_incident_name(const char *path, char kind_out[16], uint32_t *number_out)
{
    static const char *const kinds[] = {"oom", "warning", "exit", "snapshot"};
    if (!ends_with(path, ".vgr"))
        return false;
    const char *end = path + strlen(path) - strlen(".vgr"), *at = end;
    while (at > path && isdigit((unsigned char)at[-1]))
        at--;
    if (at == end || at == path || *--at != '-' || end - at > 11)
        return false;
    for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++) {
        size_t length = strlen(kinds[i]);
        if ((size_t)(at - path) <= length || at[-(ptrdiff_t)length - 1] != '.' ||
            strncmp(at - length, kinds[i], length))
            continue;
        strcpy(kind_out, kinds[i]);
        *number_out = (uint32_t)strtoul(at + 1, NULL, 10);
        return true;
    }
    return false;
}

char *vg_incident_path(const char *path, const char *kind, uint32_t number)
{
    char *made;
    if (!ends_with(path, ".vgr") ||
        asprintf(&made, "%.*s.%s-%u.vgr", (int)(strlen(path) - strlen(".vgr")), path, kind,
                 number) < 0)
        return NULL;
    if (!access(made, F_OK))
        return made;
    free(made);
    return NULL;
}

/* --- files and directories -------------------------------------------------------------------- */

static bool open_file(const char *path, struct vg_target *out, char *why_out, size_t why_size)
{
    struct stat status;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) {
        snprintf(why_out, why_size, "%s: %s", path, strerror(errno));
        return false;
    }
    if (fstat(fd, &status) || !S_ISREG(status.st_mode)) {
        snprintf(why_out, why_size, "%s: not a record (not a regular file)", path);
        close(fd);
        return false;
    }
    out->fd = fd;
    out->path = vg_copy(path);
    return true;
}

struct candidate {
    char *path;
    bool whole;
    struct timespec time;
};

/* Best first: whole records before incidents' files, then the newest. */
static int compare_candidates(const void *left, const void *right)
{
    const struct candidate *a = left, *b = right;
    if (a->whole != b->whole)
        return a->whole ? -1 : 1;
    if (a->time.tv_sec != b->time.tv_sec)
        return a->time.tv_sec > b->time.tv_sec ? -1 : 1;
    if (a->time.tv_nsec != b->time.tv_nsec)
        return a->time.tv_nsec > b->time.tv_nsec ? -1 : 1;
    return strcmp(b->path, a->path);
}

static size_t list_candidates(DIR *listing, const char *directory, struct candidate **list_out)
{
    struct candidate *list = NULL;
    size_t count = 0;
    for (struct dirent *entry; (entry = readdir(listing));) {
        struct stat status;
        char kind[16];
        uint32_t number;
        if (strncmp(entry->d_name, "vramguard.", 10) || !ends_with(entry->d_name, ".vgr") ||
            fstatat(dirfd(listing), entry->d_name, &status, 0) || !S_ISREG(status.st_mode))
            continue;
        list = vg_need(realloc(list, (count + 1) * sizeof(*list)));
        struct candidate *one = &list[count++];
        one->whole = !vg_incident_name(entry->d_name, kind, &number);
        one->time = status.st_mtim;
        if (asprintf(&one->path, "%s/%s", directory, entry->d_name) < 0)
            abort();
    }
    if (count)
        qsort(list, count, sizeof(*list), compare_candidates);
    *list_out = list;
    return count;
}

static bool open_whole(const char *path, struct vg_target *out, char *why_out, size_t why_size)
{
    struct vg_view view;
    char why[256];
    if (!open_file(path, out, why_out, why_size))
        return false;
    if (vg_view_open_fd(&view, out->fd, why, sizeof(why)) == VG_OK) {
        vg_view_close(&view);
        return true;
    }
    snprintf(why_out, why_size, "%s: %s", path, why);
    vg_target_close(out);
    return false;
}

/* The newest whole record that can be read; where there are only incidents' files, the newest of
 * those. */
static bool open_newest(const char *directory, struct vg_target *out, char *why_out,
                        size_t why_size)
{
    DIR *listing = opendir(directory);
    if (!listing) {
        snprintf(why_out, why_size, "%s: %s", directory, strerror(errno));
        return false;
    }
    struct candidate *list;
    size_t count = list_candidates(listing, directory, &list);
    closedir(listing);
    bool found = false;
    for (size_t i = 0; i < count && !found; i++) {
        found = open_whole(list[i].path, out, why_out, why_size);
        if (!found && i + 1 < count)
            vg_cli_error("%s; passed over", why_out);
    }
    if (!count)
        snprintf(why_out, why_size, "%s: no record (vramguard.*.vgr) in this directory", directory);
    for (size_t i = 0; i < count; i++)
        free(list[i].path);
    free(list);
    return found;
}

/* A JSON report was made from the record of the same stem. */
static bool open_beside_json(const char *json, struct vg_target *out, char *why_out,
                             size_t why_size)
{
    char *path;
    if (asprintf(&path, "%.*s.vgr", (int)(strlen(json) - strlen(".json")), json) < 0)
        abort();
    bool found = !access(path, F_OK) && open_file(path, out, why_out, why_size);
    if (!found)
        snprintf(why_out, why_size,
                 "%s: its record %s is not there, and only a record can be shown", json, path);
    free(path);
    return found;
}

/* --- processes -------------------------------------------------------------------------------- */

struct mapping {
    dev_t device;
    ino_t inode;
    unsigned long low, high;
    char path[PATH_MAX]; /* as the process sees it; "" where it has none any more */
};

/* A record in a memfd, or one whose file was removed, has no path that can be opened. */
static bool parse_mapping(char *line, struct mapping *out)
{
    unsigned major_number, minor_number;
    unsigned long inode;
    int at = 0;
    if (sscanf(line, "%lx-%lx %*s %*s %x:%x %lu %n", &out->low, &out->high, &major_number,
               &minor_number, &inode, &at) < 5 ||
        !at)
        return false;
    char *path = line + at;
    path[strcspn(path, "\n")] = 0;
    bool deleted = ends_with(path, " (deleted)");
    if (deleted)
        path[strlen(path) - strlen(" (deleted)")] = 0;
    bool memory = !strcmp(path, "/memfd:vramguard");
    if (!memory && !ends_with(path, ".vgr"))
        return false;
    out->device = makedev(major_number, minor_number);
    out->inode = inode;
    snprintf(out->path, sizeof(out->path), "%s", deleted || memory ? "" : path);
    return true;
}

static bool find_mapping(unsigned long pid, struct mapping *out, char *why_out, size_t why_size)
{
    char path[64], *line = NULL;
    size_t room = 0;
    snprintf(path, sizeof(path), "/proc/%lu/maps", pid);
    FILE *maps = fopen(path, "re");
    bool found = false;
    if (!maps) {
        snprintf(why_out, why_size, "process %lu: %s", pid,
                 errno == ENOENT ? "no such process" : strerror(errno));
        return false;
    }
    errno = 0;
    while (!found && getline(&line, &room, maps) > 0)
        found = parse_mapping(line, out);
    if (!found)
        snprintf(why_out, why_size, "process %lu: %s", pid,
                 errno == EACCES || errno == EPERM
                     ? strerror(errno)
                     : "has no record (not under the guard, or no GPU memory used so far)");
    free(line);
    fclose(maps);
    return found;
}

/* On overlay file systems maps may name the layer's device and stat the overlay's: the number of
 * the file then has to do. */
static bool is_that_file(int fd, const struct mapping *mapping, bool strict)
{
    struct stat status;
    return !fstat(fd, &status) && S_ISREG(status.st_mode) && status.st_ino == mapping->inode &&
           (!strict || status.st_dev == mapping->device);
}

static int open_checked(const char *path, const struct mapping *mapping, bool strict)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0 || is_that_file(fd, mapping, strict))
        return fd;
    close(fd);
    errno = ENOENT;
    return -1;
}

/* The process's own descriptor of it. */
static int open_descriptor(unsigned long pid, const struct mapping *mapping)
{
    char path[320];
    snprintf(path, sizeof(path), "/proc/%lu/fd", pid);
    DIR *listing = opendir(path);
    int fd = -1;
    for (struct dirent *entry; listing && fd < 0 && (entry = readdir(listing));) {
        struct stat status;
        snprintf(path, sizeof(path), "/proc/%lu/fd/%s", pid, entry->d_name);
        if (isdigit((unsigned char)entry->d_name[0]) && !stat(path, &status) &&
            status.st_ino == mapping->inode && status.st_dev == mapping->device)
            fd = open_checked(path, mapping, true);
    }
    if (listing)
        closedir(listing);
    return fd;
}

static bool open_process(unsigned long pid, struct vg_target *out, char *why_out, size_t why_size)
{
    struct mapping mapping;
    if (!find_mapping(pid, &mapping, why_out, why_size))
        return false;
    char path[PATH_MAX + 64];
    int fd = -1;
    out->path = NULL;
    snprintf(path, sizeof(path), "/proc/%lu/root%s", pid, mapping.path);
    for (int strict = 1; *mapping.path && fd < 0 && strict >= 0; strict--)
        fd = open_checked(path, &mapping, strict);
    if (fd >= 0) { /* the plain path where it is the same file here: that is what a user can type */
        int plain = open_checked(mapping.path, &mapping, false);
        out->path = vg_copy(plain >= 0 ? mapping.path : path);
        if (plain >= 0)
            close(plain);
    } else {
        fd = open_descriptor(pid, &mapping);
    }
    if (fd < 0) {
        snprintf(path, sizeof(path), "/proc/%lu/map_files/%lx-%lx", pid, mapping.low, mapping.high);
        fd = open_checked(path, &mapping, false);
    }
    if (fd < 0)
        snprintf(why_out, why_size, "process %lu: its record cannot be opened: %s", pid,
                 strerror(errno));
    out->fd = fd;
    return fd >= 0;
}

/* --- the processes below one ------------------------------------------------------------------ */

struct family {
    unsigned long pid[64];
    size_t count;
};

static void add_children(struct family *family, unsigned long parent)
{
    DIR *listing = opendir("/proc");
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        char path[300], text[1024];
        unsigned long its_parent;
        if (!isdigit((unsigned char)entry->d_name[0]))
            continue;
        snprintf(path, sizeof(path), "/proc/%s/stat", entry->d_name);
        FILE *file = fopen(path, "re");
        size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
        if (file)
            fclose(file);
        text[length] = 0;
        const char *at = strrchr(text, ')'); /* the name before it may hold anything */
        if (at && sscanf(at + 1, " %*c %lu", &its_parent) == 1 && its_parent == parent &&
            family->count < sizeof(family->pid) / sizeof(*family->pid))
            family->pid[family->count++] = strtoul(entry->d_name, NULL, 10);
    }
    if (listing)
        closedir(listing);
}

/* `vramguard run` itself, or a shell, has no record; the program below it has. */
static bool open_below(unsigned long pid, struct vg_target *out, char *why_out, size_t why_size)
{
    struct family family = {.count = 0}, with_record = {.count = 0};
    struct mapping mapping;
    char why[256];
    add_children(&family, pid);
    for (size_t i = 0; i < family.count; i++) {
        if (find_mapping(family.pid[i], &mapping, why, sizeof(why)))
            with_record.pid[with_record.count++] = family.pid[i];
        add_children(&family, family.pid[i]);
    }
    if (!with_record.count)
        return false;
    if (with_record.count == 1)
        return open_process(with_record.pid[0], out, why_out, why_size);
    int at =
        snprintf(why_out, why_size, "process %lu has no record; processes below it have:", pid);
    for (size_t i = 0; i < with_record.count && at > 0 && (size_t)at < why_size; i++)
        at += snprintf(why_out + at, why_size - (size_t)at, " %lu", with_record.pid[i]);
    return false;
}

bool vg_find_record(const char *name, struct vg_target *out, char *why_out, size_t why_size)
{
    struct stat status;
    if (*name && !name[strspn(name, "0123456789")]) {
        errno = 0;
        unsigned long pid = strtoul(name, NULL, 10);
        if (errno || pid == 0 || pid > INT_MAX) {
            snprintf(why_out, why_size, "process %s: no such process", name);
            return false;
        }
        return open_process(pid, out, why_out, why_size) || open_below(pid, out, why_out, why_size);
    }
    if (!stat(name, &status) && S_ISDIR(status.st_mode))
        return open_newest(name, out, why_out, why_size);
    if (ends_with(name, ".json"))
        return open_beside_json(name, out, why_out, why_size);
    return open_file(name, out, why_out, why_size);
}

void vg_target_close(struct vg_target *target)
{
    close(target->fd);
    free(target->path);
}

/* --- what a killed process left --------------------------------------------------------------- */

struct left {
    unsigned long long started, copy; /* copy: N of a name that ends in -N, else 1 */
};

/* "vramguard.host.PID-STARTED[-N].vgr", a whole record. */
static bool parse_left(const char *name, const char *middle, struct left *out)
{
    char kind[16], *end;
    uint32_t number;
    const char *at = strncmp(name, "vramguard.", 10) ? NULL : strstr(name, middle);
    if (!at || !ends_with(name, ".vgr") || vg_incident_name(name, kind, &number))
        return false;
    out->started = strtoull(at + strlen(middle), &end, 10);
    out->copy = *end == '-' ? strtoull(end + 1, NULL, 10) : 1;
    return true;
}

/* The newest: a process that executes another program keeps its number, and a restarted container
 * has the numbers of the one before. */
static char *left_in(const char *directory, uint32_t pid, uint64_t started_ns)
{
    char middle[32], *found = NULL;
    struct left best = {0, 0}, left;
    snprintf(middle, sizeof(middle), ".%u-", pid);
    DIR *listing = opendir(directory);
    char *absolute = realpath(directory, NULL);
    for (struct dirent *entry; listing && (entry = readdir(listing));) {
        if (!parse_left(entry->d_name, middle, &left) ||
            left.started + 1 < started_ns / 1000000000u || /* of an older process */
            left.started < best.started || (left.started == best.started && left.copy < best.copy))
            continue;
        free(found);
        if (asprintf(&found, "%s/%s", absolute ? absolute : directory, entry->d_name) < 0)
            found = NULL;
        best = left;
    }
    free(absolute);
    if (listing)
        closedir(listing);
    return found;
}

char *vg_find_left_record(const char *directory, uint32_t pid, uint64_t started_ns)
{
    const char *temporary = getenv("TMPDIR");
    const char *const places[] = {directory && *directory ? directory : ".", temporary, "/tmp"};
    for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
        char *found = places[i] && *places[i] ? left_in(places[i], pid, started_ns) : NULL;
        if (found)
            return found;
    }
    return NULL;
}

/* --- is it alive ------------------------------------------------------------------------------ */

/* Start of a process in real time; 0 unknown. */
static uint64_t process_start_ns(unsigned long pid)
{
    char path[64], text[1024];
    snprintf(path, sizeof(path), "/proc/%lu/stat", pid);
    FILE *file = fopen(path, "re");
    size_t length = file ? fread(text, 1, sizeof(text) - 1, file) : 0;
    if (file)
        fclose(file);
    text[length] = 0;
    const char *at = strrchr(text, ')'); /* the name before it may hold anything */
    char state = 0;
    unsigned long long ticks = 0;
    if (!at ||
        sscanf(at + 1,
               " %c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu",
               &state, &ticks) != 2 ||
        state == 'Z' || state == 'X')
        return 0;
    struct timespec real, boot;
    clock_gettime(CLOCK_REALTIME, &real);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    double start = (double)(real.tv_sec - boot.tv_sec) +
                   (double)(real.tv_nsec - boot.tv_nsec) / 1e9 +
                   (double)ticks / (double)sysconf(_SC_CLK_TCK);
    return start > 0 ? (uint64_t)(start * 1e9) : 0;
}

/* Records name their host up to the first dot; one that does not is taken as if it did. */
static bool is_this_host(const char *host)
{
    char here[256] = "";
    gethostname(here, sizeof(here) - 1);
    size_t length = strcspn(here, ".");
    return strcspn(host, ".") == length && strncmp(here, host, length) == 0;
}

bool vg_record_is_alive(const struct vg_header *header, const char *host)
{
    enum { CLOCK_SLACK_SECONDS = 2 };
    if (header->ended != VG_ENDED_NO || !is_this_host(host))
        return false;
    /* A process started after the record was made has only inherited the number. */
    uint64_t start = process_start_ns(header->pid);
    return start && start <= header->start_realtime_ns + CLOCK_SLACK_SECONDS * 1000000000ull;
}
