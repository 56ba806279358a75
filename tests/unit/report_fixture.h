/* report_fixture.h -- records made through core's writer, for the tests of analyses and renderers.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VG_TEST_REPORT_FIXTURE_H
#define VG_TEST_REPORT_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/analysis/analysis.h"
#include "core/ledger.h"
#include "core/record.h"

#define UNUSED_OK __attribute__((unused))
#define KIB(n)    ((uint64_t)(n) << 10)
#define MIB(n)    ((uint64_t)(n) << 20)
#define GIB(n)    ((uint64_t)(n) << 30)

struct fixture {
    struct vg_record record;
    struct vg_ledger ledger;
    uint64_t next_addr, now_ns;
    struct vg_view view;
    struct vg_report report;
    bool has_view, has_report;
};

UNUSED_OK static uint32_t text_id(struct fixture *f, const char *text)
{
    return vg_strings_intern_z(&f->ledger.stacks, text);
}

UNUSED_OK static void fixture_open(struct fixture *f)
{
    memset(f, 0, sizeof *f);
    assert_int_equal(vg_record_create(&f->record, NULL, MIB(256)), VG_OK);
    vg_ledger_init(&f->ledger, &f->record);
    struct vg_header *header = f->record.header;
    header->pid = 4242;
    header->rank = -1;
    header->reached = VG_REACHED_DRIVER | VG_REACHED_TORCH;
    header->host = text_id(f, "node7");
    header->exe = text_id(f, "/usr/bin/prog");
    header->cmdline = text_id(f, "/usr/bin/prog\037batch\0374096");
    header->start_realtime_ns = UINT64_C(1764533961123456789);
    f->next_addr = UINT64_C(0x7f0000000000);
    f->now_ns = UINT64_C(1000000000);
}

UNUSED_OK static void drop_report(struct fixture *f)
{
    if (f->has_report)
        vg_report_free(&f->report);
    if (f->has_view)
        vg_view_close(&f->view);
    f->has_report = f->has_view = false;
}

UNUSED_OK static void fixture_close(struct fixture *f)
{
    drop_report(f);
    vg_record_close(&f->record);
}

/* A stack with one native frame per module path (innermost first, NULL ends) and one Python frame
 * "file:line function" where file is given. */
UNUSED_OK static uint32_t stack_of(struct fixture *f, const char *const *modules, const char *file,
                                   int line)
{
    struct vg_stacks *stacks = &f->ledger.stacks;
    uint32_t frames[16], native = 0, python = 0;
    for (; modules && modules[native]; native++) {
        struct vg_module module = {.path = text_id(f, modules[native]), .high = 1 << 20};
        frames[native] =
            vg_stacks_frame_native(stacks, vg_stacks_module(stacks, &module), 0x100 + native);
    }
    if (file) {
        frames[native] =
            vg_stacks_frame_python(stacks, text_id(f, file), text_id(f, "forward"), line);
        python = 1;
    }
    return vg_stacks_intern(stacks, frames, native, python, false);
}
#define STACK(f, ...) stack_of(f, (const char *const[]){__VA_ARGS__, NULL}, NULL, 0)
#define PYTHON_STACK(f, file, line, ...)                                                           \
    stack_of(f, (const char *const[]){__VA_ARGS__, NULL}, file, line)

UNUSED_OK static void context_of(struct fixture *f, int32_t ordinal, uint64_t id, bool primary)
{
    struct vg_event event = {.op = VG_OP_CTX_CREATE,
                             .device = ordinal,
                             .context_id = id,
                             .handle = id << 8,
                             .primary = primary,
                             .bytes = VG_UNKNOWN,
                             .time_ns = f->now_ns};
    assert_int_equal(vg_ledger_apply(&f->ledger, &event), VG_OK);
}

UNUSED_OK static uint64_t alloc_at(struct fixture *f, uint64_t addr, uint8_t kind, uint64_t bytes,
                                   uint32_t stack)
{
    struct vg_event event = {.op = VG_OP_ALLOC,
                             .kind = kind,
                             .layer = vg_kind_layer(kind),
                             .addr = addr,
                             .bytes = bytes,
                             .context_id = 1,
                             .device = 0,
                             .stack = stack,
                             .api = text_id(f, "cuMemAlloc_v2"),
                             .time_ns = f->now_ns += 1000000};
    assert_int_equal(vg_ledger_apply(&f->ledger, &event), VG_OK);
    return addr;
}
UNUSED_OK static uint64_t alloc_of(struct fixture *f, uint8_t kind, uint64_t bytes, uint32_t stack)
{
    uint64_t addr = f->next_addr;
    f->next_addr += (bytes + MIB(2)) / MIB(2) * MIB(2);
    return alloc_at(f, addr, kind, bytes, stack);
}
UNUSED_OK static void free_of(struct fixture *f, uint8_t kind, uint64_t addr)
{
    struct vg_event event = {.op = VG_OP_FREE,
                             .kind = kind,
                             .layer = vg_kind_layer(kind),
                             .addr = addr,
                             .time_ns = f->now_ns += 1000000};
    assert_int_equal(vg_ledger_apply(&f->ledger, &event), VG_OK);
}

UNUSED_OK static struct vg_device *device_at(struct fixture *f, int32_t ordinal)
{
    uint32_t index = vg_ledger_device(&f->ledger, ordinal);
    assert_int_not_equal(index, 0);
    return vg_record_at(&f->record, VG_SEC_DEVICES, index - 1);
}

/* A look at device 0 now. */
UNUSED_OK static struct vg_device *sample_of(struct fixture *f, uint64_t total, uint64_t free_bytes,
                                             uint64_t nvml_self)
{
    struct vg_device *device = device_at(f, 0);
    device->name = text_id(f, "NVIDIA A10");
    device->free_source = VG_FREE_DRIVER;
    device->sample_ns = f->now_ns;
    device->total_bytes = total;
    device->free_bytes = free_bytes;
    device->nvml_self_bytes = nvml_self;
    device->pool_idle_bytes = VG_UNKNOWN;
    device->sampled_tracked_bytes = device->tracked_bytes;
    return device;
}

UNUSED_OK static void other_of(struct fixture *f, uint32_t pid, const char *name, uint64_t bytes,
                               bool may_be_this)
{
    struct vg_device *device = device_at(f, 0);
    device->other[device->other_count++] = (struct vg_other){
        .pid = pid, .name = text_id(f, name), .bytes = bytes, .may_be_this_process = may_be_this};
    device->other_seen = device->other_count;
}

/* An out-of-memory failure on device 0 in context 1. */
UNUSED_OK static struct vg_incident *fail_of(struct fixture *f, uint8_t kind, const char *api,
                                             uint64_t bytes, uint32_t stack)
{
    uint64_t index;
    struct vg_incident *incident = vg_record_reserve(&f->record, VG_SEC_INCIDENTS, 1, &index);
    assert_non_null(incident);
    *incident = (struct vg_incident){.kind = VG_INCIDENT_OOM,
                                     .outcome = VG_OUTCOME_FAILED,
                                     .attempts = 1,
                                     .number = 1,
                                     .time_ns = f->now_ns += 1000000,
                                     .api = text_id(f, api),
                                     .error = 2,
                                     .device = 1,
                                     .context = 1,
                                     .thread = 7,
                                     .stack = stack,
                                     .bytes = bytes,
                                     .requested_bytes = VG_UNKNOWN,
                                     .count = 1,
                                     .mem_available_bytes = GIB(32),
                                     .cgroup_limit_bytes = VG_UNKNOWN,
                                     .cgroup_used_bytes = VG_UNKNOWN};
    incident->site = vg_ledger_site(&f->ledger, stack, incident->api, kind, 0);
    vg_record_publish(&f->record, VG_SEC_INCIDENTS, index + 1);
    return incident;
}

/* Of now; the one made before is gone. */
UNUSED_OK static struct vg_report *report_at(struct fixture *f, uint32_t incident, bool alive)
{
    int fd;
    char why[200] = "";
    drop_report(f);
    assert_int_equal(vg_record_copy(&f->record, &fd), VG_OK);
    if (vg_view_open_fd(&f->view, fd, why, sizeof why) != VG_OK)
        fail_msg("the view does not open: %s", why);
    close(fd);
    f->has_view = true;
    struct vg_report_request request = {.incident = incident, .alive = alive};
    assert_int_equal(vg_report_build(&f->view, &request, &f->report), VG_OK);
    f->has_report = true;
    return &f->report;
}

/* The identity of the balance, on the integers. */
UNUSED_OK static void assert_balance(const struct vg_report_device *device)
{
    assert_true(device->has_unattributed);
    uint64_t sum = device->tracked_bytes + device->others_bytes + device->free_bytes +
                   (uint64_t)device->unattributed_bytes;
    for (unsigned i = 0; i < device->context_count; i++)
        if (device->contexts[i].overhead_bytes != VG_UNKNOWN)
            sum += device->contexts[i].overhead_bytes;
    if (device->pool_idle_bytes != VG_UNKNOWN)
        sum += device->pool_idle_bytes;
    assert_int_equal(sum, device->total_bytes);
    uint64_t libraries = 0;
    for (unsigned i = 0; i < device->library_count; i++)
        libraries += device->libraries[i].bytes;
    assert_int_equal(libraries, device->tracked_bytes);
}

#endif
