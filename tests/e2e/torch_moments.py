# torch_moments.py -- a torch program that says what torch itself counts, stops for a report at three moments, and then runs out of memory.
# SPDX-License-Identifier: Apache-2.0
#
# Each line on stdout: name allocated reserved. It waits for a line on stdin after each moment but the last, which the out-of-memory observer prints.
import sys
import time

import torch

MIB = 1 << 20


def say(name):
    print(name, torch.cuda.memory_allocated(), torch.cuda.memory_reserved(), flush=True)


def moment(name):
    time.sleep(1.1)  # free memory and NVML are read at the next event, at most once a second
    torch.empty(512, dtype=torch.uint8, device="cuda")
    time.sleep(0.01)
    say(name)
    sys.stdin.readline()


def grow(kept, mib):
    kept.append(torch.empty(mib * MIB, dtype=torch.uint8, device="cuda"))


def main():
    kept = []
    torch._C._cuda_attach_out_of_memory_observer(lambda *_: say("oom"))
    for _ in range(10):
        grow(kept, 30)
    moment("grown")
    del kept[::2]
    moment("holes")
    torch.cuda.empty_cache()
    moment("emptied")
    while True:
        grow(kept, 100)


main()
