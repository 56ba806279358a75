/* knobs.c -- reading the VGSIM_ variables.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/sim/common/knobs.h"

#include <ctype.h>
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

static struct {
    pthread_once_t once;
    struct vgsim_knobs knobs;
} state = {.once = PTHREAD_ONCE_INIT};

static const struct unit {
    const char *name;
    double bytes;
} units[] = {
    {"", 1},
    {"B", 1},
    {"K", 1024.0},
    {"KiB", 1024.0},
    {"M", 1048576.0},
    {"MiB", 1048576.0},
    {"G", 1073741824.0},
    {"GiB", 1073741824.0},
    {"T", 1099511627776.0},
    {"TiB", 1099511627776.0},
    {"KB", 1e3},
    {"MB", 1e6},
    {"GB", 1e9},
    {"TB", 1e12},
};

static bool parse_number(const char *text, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno || *end)
        return false;
    *out = value;
    return true;
}

/* Whole numbers keep every byte; a fraction ("1.5GiB") goes through a double. */
static bool parse_size(const char *text, uint64_t *out)
{
    char *end;
    if (!isdigit((unsigned char)*text))
        return false;
    errno = 0;
    unsigned long long whole = strtoull(text, &end, 10);
    double fraction = *end == '.' ? strtod(end, &end) : 0;
    if (errno)
        return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (!strcasecmp(end, units[i].name)) {
            if ((double)whole * units[i].bytes > 9e18)
                return false;
            *out = whole * (uint64_t)units[i].bytes + (uint64_t)(fraction * units[i].bytes);
            return true;
        }
    return false;
}

static void complain(const char *name, const char *value, const char *wanted)
{
    fprintf(stderr, "vgsim: %s=%s is not %s; the default is used\n", name, value, wanted);
}

static uint64_t read_size(const char *name, uint64_t fallback)
{
    const char *value = getenv(name);
    uint64_t bytes;
    if (!value || !*value)
        return fallback;
    if (parse_size(value, &bytes))
        return bytes;
    complain(name, value, "a size like 24GiB");
    return fallback;
}

/* One size, or one for each device; the last one stands for the devices that follow. */
static void read_memory(struct vgsim_knobs *knobs)
{
    const char *value = getenv("VGSIM_MEMORY");
    char copy[512], *rest = copy;
    uint64_t bytes = (uint64_t)24 << 30;
    int count = 0;
    bool valid = value && strlen(value) < sizeof copy;
    if (valid)
        strcpy(copy, value);
    for (char *item; valid && *value && (item = strsep(&rest, ",")) && count < VGSIM_MAX_DEVICES;)
        valid = parse_size(item, &knobs->memory[count++]);
    if (value && !valid) {
        complain("VGSIM_MEMORY", value, "a size like 24GiB");
        count = 0;
    }
    for (int i = 0; i < VGSIM_MAX_DEVICES; i++) {
        bytes = i < count ? knobs->memory[i] : bytes;
        knobs->memory[i] = bytes;
    }
}

static const char *read_path(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? strdup(value) : NULL;
}

static int read_devices(void)
{
    const char *value = getenv("VGSIM_DEVICES");
    uint64_t count;
    if (!value || !*value)
        return 1;
    if (parse_number(value, &count) && count <= VGSIM_MAX_DEVICES)
        return (int)count;
    complain("VGSIM_DEVICES", value, "a number from 0 to 16");
    return 1;
}

/* Cuts one item at its colons, in place. */
static int split(char *item, char *part[], int most)
{
    int count = 0;
    for (char *at = item; at && count < most; count++) {
        part[count] = at;
        at = strchr(at, ':');
        if (at)
            *at++ = '\0';
        if (at && count + 1 == most)
            return most + 1;
    }
    return count;
}

static bool copy_name(char *out, size_t size, const char *name)
{
    size_t length = strlen(name);
    if (length == 0 || length >= size)
        return false;
    memcpy(out, name, length + 1);
    return true;
}

static bool add_other(struct vgsim_knobs *knobs, char *item)
{
    char *part[4];
    int parts = split(item, part, 4);
    uint64_t pid, device;
    if (parts < 3 || parts > 4 || knobs->other_count == VGSIM_MAX_OTHERS)
        return false;
    struct vgsim_other *other = &knobs->others[knobs->other_count];
    if (!parse_number(part[0], &pid) || pid == 0 || pid > INT32_MAX ||
        !copy_name(other->name, sizeof other->name, part[1]) || !parse_size(part[2], &other->bytes))
        return false;
    other->pid = (int)pid;
    other->device = -1;
    if (parts == 4) {
        if (!parse_number(part[3], &device) || device >= VGSIM_MAX_DEVICES)
            return false;
        other->device = (int)device;
    }
    knobs->other_count++;
    return true;
}

static bool add_fail(struct vgsim_knobs *knobs, char *item)
{
    char *part[3];
    int parts = split(item, part, 3);
    uint64_t code = 2;
    if (parts < 2 || parts > 3 || knobs->fail_count == VGSIM_MAX_RULES)
        return false;
    struct vgsim_fail *fail = &knobs->fails[knobs->fail_count];
    size_t length = strlen(part[1]);
    fail->from_on = length > 1 && part[1][length - 1] == '+';
    if (fail->from_on)
        part[1][length - 1] = '\0';
    if (!copy_name(fail->api, sizeof fail->api, part[0]) || !parse_number(part[1], &fail->nth) ||
        fail->nth == 0 || (parts == 3 && (!parse_number(part[2], &code) || code > 9999)))
        return false;
    fail->code = (int)code;
    knobs->fail_count++;
    return true;
}

static bool add_latency(struct vgsim_knobs *knobs, char *item)
{
    char *part[2];
    if (split(item, part, 2) != 2 || knobs->latency_count == VGSIM_MAX_RULES)
        return false;
    struct vgsim_latency *latency = &knobs->latencies[knobs->latency_count];
    if (!copy_name(latency->api, sizeof latency->api, part[0]) ||
        !parse_number(part[1], &latency->us))
        return false;
    knobs->latency_count++;
    return true;
}

/* Every item of a list, or none: half a list would be a machine that nobody asked for. */
static void read_list(struct vgsim_knobs *knobs, const char *name, int *count,
                      bool (*add)(struct vgsim_knobs *, char *), const char *wanted)
{
    const char *value = getenv(name);
    if (!value || !*value)
        return;
    char *copy = strdup(value);
    char *rest = copy;
    for (char *item = copy; item; item = rest) {
        rest = strchr(item, ',');
        if (rest)
            *rest++ = '\0';
        if (*item && !add(knobs, item)) {
            complain(name, value, wanted);
            *count = 0;
            break;
        }
    }
    free(copy);
}

static void read_knobs(void)
{
    struct vgsim_knobs *knobs = &state.knobs;
    knobs->devices = read_devices();
    read_memory(knobs);
    knobs->context = read_size("VGSIM_CONTEXT", (uint64_t)300 << 20);
    knobs->hidden = read_size("VGSIM_HIDDEN", 0);
    read_list(knobs, "VGSIM_OTHER", &knobs->other_count, add_other,
              "a list of pid:name:size[:device]");
    read_list(knobs, "VGSIM_FAIL", &knobs->fail_count, add_fail, "a list of api:nth[+][:code]");
    read_list(knobs, "VGSIM_LATENCY", &knobs->latency_count, add_latency,
              "a list of api:microseconds");
    const char *mig = getenv("VGSIM_MIG");
    knobs->mig = mig && !strcmp(mig, "1");
    const char *array_size = getenv("VGSIM_ARRAY_SIZE");
    knobs->any_array_size = array_size && !strcmp(array_size, "any");
    knobs->account = read_path("VGSIM_ACCOUNT");
    knobs->shared = read_path("VGSIM_SHARED");
    knobs->strict_capture = read_path("VGSIM_STRICT_CAPTURE");
}

const struct vgsim_knobs *vgsim_knobs(void)
{
    pthread_once(&state.once, read_knobs);
    return &state.knobs;
}

uint64_t vgsim_others_bytes(const struct vgsim_knobs *knobs, int device)
{
    uint64_t bytes = 0;
    for (int i = 0; i < knobs->other_count; i++)
        if (knobs->others[i].device < 0 || knobs->others[i].device == device)
            bytes += knobs->others[i].bytes;
    return bytes;
}

void vgsim_uuid(int device, unsigned char uuid_out[16])
{
    static const unsigned char base[16] = {0x76, 0x67, 0x73, 0x69, 0x6d, 0x00, 0x40, 0x00,
                                           0x80, 0x00, 0x56, 0x47, 0x53, 0x49, 0x4d, 0x00};
    memcpy(uuid_out, base, sizeof base);
    uuid_out[15] = (unsigned char)(device + 1);
}

void vgsim_parent_uuid(int device, unsigned char uuid_out[16])
{
    vgsim_uuid(device, uuid_out);
    uuid_out[14] = 0x50;
}
