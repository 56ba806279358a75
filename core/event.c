/* event.c -- what the rows of kinds.def and ops.def say.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "core/event.h"

static const struct {
    const char *key;
    enum vg_layer layer;
    enum vg_space space;
    bool occupies;
} kinds[VG_KIND_COUNT] = {
    [VG_KIND_NONE] = {"none", VG_LAYER_DRIVER, VG_SPACE_ADDRESS, false},
#define KIND(NAME, key, layer, space, occupies)                                                    \
    [VG_KIND_##NAME] = {key, VG_LAYER_##layer, VG_SPACE_##space, occupies},
#include "core/kinds.def"
};

enum when { BEFORE, AFTER };
static const struct {
    enum when when;
    bool starts;
} ops[VG_OP_COUNT] = {
#define OP(NAME, when, starts) [VG_OP_##NAME] = {when, starts},
#include "core/ops.def"
};

const char *vg_kind_key(enum vg_kind kind)
{
    return kinds[kind < VG_KIND_COUNT ? kind : VG_KIND_NONE].key;
}

enum vg_layer vg_kind_layer(enum vg_kind kind)
{
    return kinds[kind < VG_KIND_COUNT ? kind : VG_KIND_NONE].layer;
}

enum vg_space vg_kind_space(enum vg_kind kind)
{
    return kinds[kind < VG_KIND_COUNT ? kind : VG_KIND_NONE].space;
}

bool vg_kind_occupies(enum vg_kind kind)
{
    return kind < VG_KIND_COUNT && kinds[kind].occupies;
}

bool vg_op_starts(enum vg_op op)
{
    return op < VG_OP_COUNT && ops[op].starts;
}

bool vg_op_is_before(enum vg_op op)
{
    return op < VG_OP_COUNT && ops[op].when == BEFORE;
}

const char *vg_layer_key(enum vg_layer layer)
{
    static const char *const keys[VG_LAYER_COUNT] = {"driver", "torch", "object"};
    return keys[layer < VG_LAYER_COUNT ? layer : VG_LAYER_DRIVER];
}
