/* leak.c -- two buffers per frame, one of them never freed (CUDA runtime API).
 * SPDX-License-Identifier: Apache-2.0
 *
 * What a report of it must show: `decode_frame` holds one live block of 2 MiB per frame at the line
 * of `copy`, none at the line of `frame`; with keep=always the exit report lists that site first.
 * "Live at exit", not "leaked": one report alone can't tell.
 *
 *   vramguard run --sim=24GiB --keep=always -- build/examples/leak 50
 */
#include <stdio.h>
#include <stdlib.h>

#include "cuda_runtime_api.h"

enum { FRAME_BYTES = 2 << 20 };

static int decode_frame(void)
{
    void *frame = NULL, *copy = NULL;
    if (cudaMalloc(&frame, FRAME_BYTES) != cudaSuccess)
        return 0;
    if (cudaMalloc(&copy, FRAME_BYTES) != cudaSuccess)
        return 0;
    cudaMemset(copy, 0, 16);
    cudaFree(frame);
    return 1;
}

int main(int argc, char **argv)
{
    int frames = argc > 1 ? atoi(argv[1]) : 50, done = 0;
    while (done < frames && decode_frame())
        done++;
    printf("%d frames\n", done);
    return done == frames ? 0 : 1;
}
