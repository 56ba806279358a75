/* proc.c -- cuGetProcAddress.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Which export a name means, at a version, for a kind of default stream.
 *
 * Holds:      every pointer given out is an export. Works before cuInit and in a forked child.
 */
#include "tests/sim/driver/sim.h"

#include <string.h>

static const struct proc {
    const char *name;
    int since;
    bool per_thread;
    void (*function)(void);
} procs[] = {
#define PROC(name, since, symbol)    {#name, since, false, (void (*)(void))symbol},
#define PROC_PS(name, since, symbol) {#name, since, true, (void (*)(void))symbol},
#include "tests/sim/driver/proc.def"
#undef PROC
#undef PROC_PS
};

/* The newest form that the version allows; where both kinds of stream are as new, the one asked
 * for. */
static const struct proc *find(const char *name, int version, bool per_thread, bool *known_out)
{
    const struct proc *best = NULL;
    *known_out = false;
    for (size_t i = 0; i < sizeof procs / sizeof procs[0]; i++) {
        const struct proc *proc = &procs[i];
        if (strcmp(proc->name, name) || (proc->per_thread && !per_thread))
            continue;
        *known_out = true;
        if (proc->since > version)
            continue;
        if (!best || proc->since > best->since || (proc->since == best->since && proc->per_thread))
            best = proc;
    }
    return best;
}

static CUresult look_up(const char *name, void **out, int version, cuuint64_t flags,
                        CUdriverProcAddressQueryResult *status_out)
{
    bool known;
    if (vgsim_knobs()->strict_capture)
        vgsim_capture_audit("cuGetProcAddress");
    if (!name || !out || flags & ~(cuuint64_t)3 || flags == 3)
        return CUDA_ERROR_INVALID_VALUE;
    const struct proc *proc =
        find(name, version, flags == CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM, &known);
    *out = NULL;
    if (proc)
        memcpy(out, &proc->function, sizeof *out);
    if (status_out)
        *status_out = proc    ? CU_GET_PROC_ADDRESS_SUCCESS
                      : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                              : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
    return proc ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

/* The form of 11.3, which tells a missing name by its result alone. */
CUresult cuGetProcAddress(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags)
{
    return look_up(symbol, pfn, cudaVersion, flags, NULL);
}

CUresult cuGetProcAddress_v2(const char *symbol, void **pfn, int cudaVersion, cuuint64_t flags,
                             CUdriverProcAddressQueryResult *symbolStatus)
{
    return look_up(symbol, pfn, cudaVersion, flags, symbolStatus);
}
