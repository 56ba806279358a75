/* config.c -- options, rank, and the place of the record.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Place:   lifecycle.c, when COLD ends. The only reader of the environment in the library (but for
 *          VRAMGUARD_SUMMARY in finish.c).
 * Holds:   nothing is overwritten and no symbolic link is followed: a name that is taken gets -2,
 *          -3, ...
 */
#include "interpose/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

#include "interpose/raw_syscall.h"

extern char **environ;

static const char internal_name[] =
    "SUMMARY"; /* VRAMGUARD_SUMMARY: from `vramguard run`, not an option */

static void set_option(struct vg_guard *guard, const char *name, size_t length, const char *value)
{
    char lower[64], why[512];
    if (length >= sizeof lower ||
        (length == sizeof internal_name - 1 && memcmp(name, internal_name, length) == 0))
        return;
    for (size_t i = 0; i < length; i++)
        lower[i] = name[i] >= 'A' && name[i] <= 'Z' ? (char)(name[i] - 'A' + 'a') : '?';
    for (size_t i = 0; i < length; i++)
        if (name[i] == '_')
            lower[i] = '_';
    enum vg_option_id id = vg_options_find(lower, length);
    if (id == VG_OPTION_COUNT)
        vg_guard_log(guard, VG_LOG_WARN,
                     "VRAMGUARD_%.*s: no such option, ignored (`vramguard help run` lists them)",
                     (int)length, name);
    else if (!vg_options_set(&guard->options, id, value, why, sizeof why))
        vg_guard_log(guard, VG_LOG_ERROR, "%s", why);
}

bool vg_config_is_program(const char *path)
{
    struct stat st;
    return path[0] && VG_CALL(newfstatat, AT_FDCWD, path, &st, 0) == 0 && S_ISREG(st.st_mode) &&
           access(path, X_OK) == 0;
}

/* Values that are well-formed and cannot be followed on this machine. */
static void check_options(struct vg_guard *guard)
{
    struct vg_options *options = &guard->options;
    if (options->tool[0] && !vg_config_is_program(options->tool)) {
        vg_guard_log(guard, VG_LOG_ERROR,
                     "VRAMGUARD_TOOL: '%s' is not a program that can be started; the default is "
                     "used: beside the library, then ../bin, then PATH",
                     options->tool);
        options->tool[0] = 0;
    }
    if (options->record_size < VG_RECORD_SIZE_LEAST) {
        vg_guard_log(guard, VG_LOG_ERROR,
                     "VRAMGUARD_RECORD_SIZE: %llu bytes are too few; the least is used: 1M",
                     (unsigned long long)options->record_size);
        options->record_size = VG_RECORD_SIZE_LEAST;
    }
}

void vg_config_options(struct vg_guard *guard)
{
    static const char prefix[] = "VRAMGUARD_";
    const char *enable = getenv("VRAMGUARD_ENABLE");
    vg_options_defaults(&guard->options);
    if (enable && strcmp(enable, "0") == 0) {
        guard->options.enable = 0; /* nothing at all: no line about another option either */
        return;
    }
    for (char **entry = environ; entry && *entry; entry++) {
        const char *equals = strchr(*entry, '=');
        if (equals && strncmp(*entry, prefix, sizeof prefix - 1) == 0)
            set_option(guard, *entry + sizeof prefix - 1,
                       (size_t)(equals - *entry) - (sizeof prefix - 1), equals + 1);
    }
    check_options(guard);
}

static int32_t number_of(const char *name)
{
    const char *text = getenv(name);
    char *end;
    if (!text || !*text)
        return -1;
    long value = strtol(text, &end, 10);
    return *end || value < 0 || value > INT32_MAX ? -1 : (int32_t)value;
}

int32_t vg_config_rank(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"};
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        int32_t rank = number_of(names[i]);
        if (rank >= 0)
            return rank;
    }
    return number_of("SLURM_NTASKS") > 1 ? number_of("SLURM_PROCID") : -1;
}

/* File systems on which a page fault can wait for a network: the record's mapping does not go
 * there. Numbers from statfs(2) and linux/magic.h. */
static bool is_network(const char *directory)
{
    static const uint32_t magic[] = {
        0x6969 /* nfs */,      0x517b /* smb */,       0xff534d42 /* cifs */,
        0xfe534d42 /* smb2 */, 0x564c /* ncp */,       0x01021997 /* 9p */,
        0x00c36400 /* ceph */, 0x5346414f /* afs */,   0x0bd00bd0 /* lustre */,
        0x47504653 /* gpfs */, 0x7461636f /* ocfs2 */, 0x19830326 /* beegfs */};
    struct statfs info;
    if (statfs(directory, &info) != 0)
        return false;
    for (unsigned i = 0; i < sizeof magic / sizeof *magic; i++)
        if ((uint32_t)info.f_type == magic[i])
            return true;
    return false;
}

/* NULL, or why files cannot go there: is it a directory in which others cannot swap our files? */
static const char *refuse_directory(const char *directory)
{
    struct stat st;
    if (VG_CALL(newfstatat, AT_FDCWD, directory, &st, 0) < 0)
        return strerror(ENOENT);
    if (!S_ISDIR(st.st_mode))
        return strerror(ENOTDIR);
    if ((st.st_mode & S_IWOTH) && !(st.st_mode & S_ISVTX))
        return "it is writable by everybody and has no sticky bit";
    return access(directory, W_OK | X_OK) == 0 ? NULL : strerror(errno);
}

static void absolute(const char *directory, char *out, size_t size)
{
    char cwd[VG_PATH_MAX / 2];
    bool is_absolute = directory[0] == '/' || !getcwd(cwd, sizeof cwd);
    bool is_here = strcmp(directory, ".") == 0;
    int n = snprintf(out, size, "%s%s%s", is_absolute ? "" : cwd, is_absolute || is_here ? "" : "/",
                     is_here && !is_absolute ? "" : directory);
    if (n < 0 || (size_t)n >= size)
        out[0] = 0; /* no such directory: the fallbacks are next */
}

static void base_name(const struct vg_guard *guard, char *out, size_t size)
{
    struct utsname host;
    struct timespec now;
    char rank[32] = "";
    if (uname(&host) != 0)
        strcpy(host.nodename, "unknown");
    host.nodename[strcspn(host.nodename, ".")] = 0;
    clock_gettime(CLOCK_REALTIME, &now);
    if (guard->rank >= 0)
        snprintf(rank, sizeof rank, ".rank%d", guard->rank);
    snprintf(out, size, "vramguard.%s%s.%d-%lld", host.nodename[0] ? host.nodename : "unknown",
             rank, guard->pid, (long long)now.tv_sec);
}

/* A name not taken yet. stem_dir: where the reports go. 0 or an errno. */
static int try_create(struct vg_guard *guard, const char *directory, const char *stem_dir,
                      const char *base)
{
    for (unsigned n = 1; n < 1000; n++) {
        char suffix[16] = "";
        if (n > 1)
            snprintf(suffix, sizeof suffix, "-%u", n);
        if ((size_t)snprintf(guard->record_path, VG_PATH_MAX, "%s/%s%s.vgr", directory, base,
                             suffix) >= VG_PATH_MAX ||
            (size_t)snprintf(guard->stem, VG_PATH_MAX, "%s/%s%s", stem_dir, base, suffix) >=
                VG_PATH_MAX)
            return ENAMETOOLONG;
        if (vg_record_create(&guard->record, guard->record_path, guard->options.record_size) ==
            VG_OK)
            return 0;
        if (errno != EEXIST)
            return errno;
    }
    return EEXIST;
}

enum vg_status vg_config_create_record(struct vg_guard *guard)
{
    char wanted[VG_PATH_MAX / 2], base[VG_PATH_MAX / 4];
    const char *tmp = getenv("TMPDIR");
    absolute(guard->options.dir, wanted, sizeof wanted);
    base_name(guard, base, sizeof base);
    const char *why = refuse_directory(wanted);
    bool network = !why && is_network(wanted);
    if (!why && !network) {
        int error = try_create(guard, wanted, wanted, base);
        if (!error)
            return VG_OK;
        why = strerror(error);
    }
    const char *fallback[] = {tmp && tmp[0] == '/' ? tmp : "/tmp", "/tmp"};
    for (unsigned i = 0; i < 2; i++) {
        if (refuse_directory(fallback[i]) || is_network(fallback[i]) ||
            try_create(guard, fallback[i], network ? wanted : fallback[i], base))
            continue;
        if (!network)
            vg_guard_log(guard, VG_LOG_WARN,
                         "cannot write to %s (%s): records and reports go to %s", wanted, why,
                         fallback[i]);
        return VG_OK;
    }
    guard->record_path[0] = 0;
    snprintf(guard->stem, VG_PATH_MAX, "%s/%s", wanted, base);
    enum vg_status status = vg_record_create(&guard->record, NULL, guard->options.record_size);
    if (status == VG_OK)
        vg_guard_log(guard, VG_LOG_WARN,
                     "cannot write to %s (%s): the record is kept in memory and will not survive "
                     "the process",
                     wanted, network ? "a network file system" : why);
    return status;
}
