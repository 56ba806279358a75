/* object.c -- handles that a program holds: streams, events, modules and the like.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Holds:      every handle given out and not taken back is in the tree; a pointer that is not is no handle.
 */
#include "tests/sim/driver/sim.h"

#include <search.h>
#include <stdlib.h>

static void *tree;

static int compare(const void *a, const void *b)
{
    return a < b ? -1 : a > b;
}

static uint64_t *live_count(const struct vgsim_object *object)
{
    if (!object->context)
        return NULL;
    struct vgsim_device_books *books = &vgsim_device_changed(object->context->device)->books;
    switch (object->type) {
    case STREAM:
        return &books->streams;
    case EVENT:
        return &books->events;
    case MODULE:
        return &books->modules;
    default:
        return NULL;
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
    uint64_t *count = live_count(object);
    if (count)
        ++*count;
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
    uint64_t *count = live_count(object);
    if (count)
        --*count;
    free(object);
}
