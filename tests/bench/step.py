# step.py -- CPU seconds of a PyTorch training step: small tensors, many operators. One number per window of steps.
# SPDX-License-Identifier: Apache-2.0
import sys
import time

import torch
from torch import nn

torch.set_num_threads(1)
WINDOWS, STEPS = int(sys.argv[1]), int(sys.argv[2])
layers = [layer for _ in range(8) for layer in (nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU())]
model = nn.Sequential(*layers).cuda()
optimizer = torch.optim.Adam(model.parameters())
data = torch.ones(32, 64, device="cuda")


def step():
    optimizer.zero_grad()
    model(data).sum().backward()
    optimizer.step()


for _ in range(STEPS):
    step()
for _ in range(WINDOWS):
    begin = time.process_time()
    for _ in range(STEPS):
        step()
    torch.cuda.synchronize()
    print((time.process_time() - begin) / STEPS)
