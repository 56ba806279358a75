/* driver.c -- a main for fuzz targets without libFuzzer.
 * SPDX-License-Identifier: Apache-2.0
 *
 * Mutated seeds and random bytes for a number of seconds, always the same ones.
 *
 *   fuzz_X [SECONDS]    fuzz_X FILE...
 */
#include "tests/fuzz/fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { INPUT_MAX = 1024 * 1024, MUTATIONS_MAX = 12 };

static uint64_t next(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

static void mutate(uint8_t *bytes, size_t size, uint64_t *random)
{
    static const uint64_t numbers[] = {0,          1,          0x7f,           0x80,
                                       0xff,       0x7fff,     0xffff,         0x7fffffff,
                                       0xffffffff, UINT64_MAX, UINT64_MAX / 2, 4096};
    for (uint64_t n = 1 + next(random) % MUTATIONS_MAX; n && size; n--) {
        /* Most of them near the start, where tables are. */
        static const size_t reaches[] = {512, 40 * 1024, INPUT_MAX};
        size_t reach = reaches[next(random) % 3];
        reach = reach < size ? reach : size;
        size_t at = (size_t)(next(random) % reach), width = (size_t)1 << next(random) % 4;
        uint64_t value = next(random) % 2
                             ? next(random)
                             : numbers[next(random) % (sizeof numbers / sizeof *numbers)];
        memcpy(bytes + at, &value, width < size - at ? width : size - at);
    }
}

static int run_files(int count, char **paths)
{
    for (int i = 0; i < count; i++) {
        FILE *file = fopen(paths[i], "rb");
        uint8_t *bytes = malloc(INPUT_MAX);
        if (!file || !bytes) {
            perror(paths[i]);
            return 2;
        }
        size_t size = fread(bytes, 1, INPUT_MAX, file);
        fclose(file);
        LLVMFuzzerTestOneInput(bytes, size);
        free(bytes);
    }
    return 0;
}

int main(int argc, char **argv)
{
    char *end = NULL;
    long seconds = argc > 1 ? strtol(argv[1], &end, 10) : 5;
    if (end && *end) {
        return run_files(argc - 1, argv + 1);
    }
    uint8_t *seed = malloc(INPUT_MAX), *bytes = malloc(INPUT_MAX);
    uint64_t random = 88172645463325252u, runs = 0;
    time_t until = time(NULL) + seconds;
    while (time(NULL) < until && seed && bytes) {
        for (int i = 0; i < 64; i++, runs++) {
            size_t size = vg_fuzz_seed(next(&random), seed, INPUT_MAX);
            memcpy(bytes, seed, size);
            mutate(bytes, size, &random);
            if (next(&random) % 16 == 0) {
                size = (size_t)(next(&random) % (size + 1));
            }
            LLVMFuzzerTestOneInput(bytes, size);
        }
    }
    printf("%llu inputs, none did harm\n", (unsigned long long)runs);
    free(seed);
    free(bytes);
    return 0;
}
