/* object.c -- handles that a program holds: streams, events, modules and the like.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      every handle given out and not taken back is in the tree; a pointer that is not is no
 *             handle.
 */
#include "tests/sim/driver/sim.h"

#include <search.h>
#include <stdlib.h>

static void *tree;

static int compare(const void *a, const void *b)
{
    return a < b ? -1 : a > b;
}

/* What has no context counts on no device. Modules and libraries: module.c. */
static void count(const struct vgsim_object *object, int change)
{
    if (!object->context)
        return;
    CUdevice device = object->context->device;
    switch (object->type) {
    case STREAM:
        vgsim_books_object(device, VGSIM_COUNTED_streams, change);
        return;
    case EVENT:
        vgsim_books_object(device, VGSIM_COUNTED_events, change);
        return;
    default:
        return;
    }
}

void *vgsim_object_add(enum vgsim_type type, size_t size, struct CUctx_st *context)
{
    struct vgsim_object *object = calloc(1, size);
    if (!object)
        return NULL;
    object->type = type;
    object->context = context;
    if (!tsearch(object, &tree, compare)) {
        free(object);
        return NULL;
    }
    if (context) {
        object->next = context->objects;
        if (object->next)
            object->next->previous = object;
        context->objects = object;
    }
    count(object, 1);
    return object;
}

bool vgsim_object_is(const void *handle, enum vgsim_type type)
{
    struct vgsim_object **found = handle ? tfind(handle, &tree, compare) : NULL;
    return found && (*found)->type == type;
}

void vgsim_object_remove(void *handle)
{
    struct vgsim_object *object = handle;
    tdelete(object, &tree, compare);
    if (object->previous)
        object->previous->next = object->next;
    else if (object->context)
        object->context->objects = object->next;
    if (object->next)
        object->next->previous = object->previous;
    count(object, -1);
    free(object);
}
