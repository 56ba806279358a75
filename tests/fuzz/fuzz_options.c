/* fuzz_options.c -- any text as the value of any option, and as a name.
 * SPDX-License-Identifier: Apache-2.0
 */
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "core/options.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    char *text = malloc(size + 1), why[128];
    struct vg_options options;
    uint64_t number;
    if (!text) {
        return 0;
    }
    memcpy(text, bytes, size);
    text[size] = '\0';
    vg_options_defaults(&options);
    for (int id = 0; id < VG_OPTION_COUNT; id++) {
        if (!vg_options_set(&options, id, text, why, sizeof why) && strchr(why, '\n')) {
            abort();
        }
    }
    if (options.stack_depth < 1 || options.stack_depth > VG_OPTION_DEPTH_MAX) {
        abort();
    }
    (void)vg_options_find(text, size);
    (void)vg_parse_size(text, &number);
    (void)vg_parse_duration(text, &number);
    free(text);
    return 0;
}

size_t vg_fuzz_seed(uint64_t number, uint8_t *out, size_t max)
{
    static const char *const seeds[] = {"512M",
                                        "1.5GiB",
                                        "500ms",
                                        "10m",
                                        "text,json",
                                        "always",
                                        "128",
                                        "both",
                                        "warn",
                                        "none",
                                        "18446744073709551615",
                                        "0.1E",
                                        "99999999d",
                                        "./dir"};
    const char *seed = seeds[number % (sizeof seeds / sizeof *seeds)];
    size_t size = strlen(seed);
    if (size > max) {
        size = max;
    }
    memcpy(out, seed, size);
    return size;
}
