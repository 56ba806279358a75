/* fuzz.h -- what a fuzz target offers.
 * SPDX-License-Identifier: Apache-2.0
 *
 * To libFuzzer the one function, to driver.c good inputs to damage as well.
 */
#ifndef VG_TESTS_FUZZ_H
#define VG_TESTS_FUZZ_H

#include <stddef.h>
#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);
/* Writes a good input, chosen by `number`, and returns its size. */
size_t vg_fuzz_seed(uint64_t number, uint8_t *out, size_t max);

#endif
