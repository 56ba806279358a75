/* nvml_sim.h -- what the files of the simulated NVML share.
 * SPDX-License-Identifier: Apache-2.0
 */
#ifndef VGSIM_NVML_SIM_H
#define VGSIM_NVML_SIM_H

#define NVML_NO_UNVERSIONED_FUNC_DEFS
#include "nvml.h"
#include "tests/sim/common/books.h"

#include <stdbool.h>

bool vgsim_nvml_ready(void);                   /* between an init and its shutdown */
int vgsim_nvml_index(nvmlDevice_t device);     /* -1: not a device */
bool vgsim_nvml_is_slice(nvmlDevice_t device); /* a MIG device, not the whole one */
nvmlDevice_t vgsim_nvml_device(int index, bool slice);
/* The device as the libcuda of this process sees it; where there is none, as the knobs say, without
 * this process. */
void vgsim_nvml_books(int device, struct vgsim_device_books *books_out);
nvmlReturn_t vgsim_nvml_text(char *out, unsigned int length, const char *text);

#endif
