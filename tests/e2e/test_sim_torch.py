# test_sim_torch.py -- real PyTorch on the simulated GPU: it imports, trains, and runs out of memory with its own full message.
# SPDX-License-Identifier: Apache-2.0
import re

import pytest

import guarded


@pytest.fixture(scope="module", autouse=True)
def torch_is_there():
    guarded.need_torch()


def run(arguments, **options):
    return guarded.run([guarded.TORCH_PYTHON, *arguments], guarded.TOP, guard=False, **options)


def run_code(code, **options):
    result = run(["-c", "import torch\nfrom torch import nn\n" + code], **options)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_torch_finds_the_device():
    out = run_code("print(torch.cuda.is_available(), torch.cuda.device_count())\n"
                   "print(torch.cuda.get_device_properties(0).total_memory)\n"
                   "print(torch.cuda.mem_get_info()[1])", memory="8GiB")
    assert out.split() == ["True", "1", str(8 << 30), str(8 << 30)]


def test_copies_keep_their_bytes():
    out = run_code("x = torch.arange(1000, dtype=torch.int64)\n"
                   "y = x.cuda()\n"
                   "print(torch.equal(y.cpu(), x), y[7].item(), y[3:5].clone().cpu().tolist())\n"
                   "print(torch.equal(x.pin_memory().to('cuda', non_blocking=True).cpu(), x))")
    assert out.split("\n")[:2] == ["True 7 [3, 4]", "True"]


OPTIMIZERS = """
model = nn.Sequential(nn.Embedding(100, 64), nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.ReLU(),
                      nn.Linear(256, 100)).cuda()
weights = list(model.parameters())
tokens = torch.randint(100, (8, 16), device="cuda")
for optimizer in (torch.optim.SGD(weights, lr=0.1), torch.optim.SGD(weights, lr=0.1, momentum=0.9),
                  torch.optim.Adam(weights, foreach=True), torch.optim.AdamW(weights, fused=True)):
    for autocast in (False, True):
        for step in range(3):
            with torch.autocast("cuda", enabled=autocast):
                chances = torch.softmax(model(tokens), -1)
                loss = nn.functional.cross_entropy(chances.flatten(0, 1), tokens.flatten())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
        loss.item()
        torch.cuda.synchronize()
        print("trained", 0 < torch.cuda.memory_allocated() <= torch.cuda.memory_reserved())
"""


def test_the_usual_layers_train_with_the_usual_optimizers():
    assert run_code(OPTIMIZERS) == "trained True\n" * 8


def test_attention_trains():
    run_code("layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).cuda()\n"
             "layer(torch.randn(4, 16, 64, device='cuda')).sum().backward()")


def test_running_out_of_memory_raises_torchs_own_message():
    out = run_code("kept = []\n"
                   "try:\n"
                   "    while True: kept.append(torch.empty(100 << 20, device='cuda'))\n"
                   "except torch.OutOfMemoryError as error: print(error)", memory="2GiB")
    for part in ("Tried to allocate 400.00 MiB", "total capacity of 2.00 GiB", "is free",
                 "this process has", "reserved by PyTorch but unallocated"):
        assert part.lower() in out.lower(), out


def test_memory_comes_back_after_a_caught_failure():
    out = run_code("x = torch.empty(1 << 30, dtype=torch.uint8, device='cuda')\n"
                   "for i in range(3):\n"
                   "    try: torch.empty(3 << 30, dtype=torch.uint8, device='cuda')\n"
                   "    except torch.OutOfMemoryError: print('caught')\n"
                   "del x\n"
                   "torch.cuda.empty_cache()\n"
                   "torch.empty(1536 << 20, dtype=torch.uint8, device='cuda')", memory="2GiB")
    assert out == "caught\n" * 3


def test_train_py_fits_with_its_defaults_and_says_the_same_every_time():
    first, second = run(["examples/train.py"]), run(["examples/train.py"])
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    assert len(re.findall(r"^step \d+: [1-9]\d+ bytes allocated", first.stdout, flags=re.M)) == 20


def test_train_py_with_a_big_batch_does_not_fit():
    result = run(["examples/train.py", "--batch", "4096"])
    assert result.returncode == 1
    assert "torch.OutOfMemoryError: CUDA out of memory." in result.stderr
    assert re.search(r'train\.py", line \d+, in forward\n', result.stderr)
    assert not re.search(r"^step", result.stdout, flags=re.M)


GRAPH = """
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 256)).cuda()
x = torch.randn(64, 256, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for _ in range(2): model(x).sum().backward()
torch.cuda.current_stream().wait_stream(side)
before = torch.cuda.memory_reserved()
g = torch.cuda.CUDAGraph()
with torch.cuda.graph(g):
    y = model(x)
    loss = y.sum()
    loss.backward()
print("captured", torch.cuda.is_current_stream_capturing(), y.shape, torch.cuda.memory_reserved() > before)
for _ in range(3): g.replay()
torch.cuda.synchronize()
print("replayed", y.numel(), loss.item() == loss.item())
del y, loss
g.reset()
torch.cuda.empty_cache()
"""


def test_a_captured_graph_is_replayed():
    """The memory of a graph's pool is the caching allocator's: taken while capturing, in relaxed mode."""
    result = run(["-W", "error", "-c", "import torch\nfrom torch import nn\n" + GRAPH])
    assert result.returncode == 0, result.stderr
    assert result.stdout == "captured False torch.Size([64, 256]) True\nreplayed 16384 True\n"


def test_unsafe_work_while_capturing_is_refused_and_the_device_goes_on():
    out = run_code("g = torch.cuda.CUDAGraph()\n"
                   "x = torch.ones(4, device='cuda')\n"
                   "try:\n"
                   "    with torch.cuda.graph(g): x.sum().item()\n"
                   "except RuntimeError as error: print('due to a previous error during capture' in str(error))\n"
                   "torch.cuda.synchronize()\n"
                   "print(torch.ones(3).cuda().cpu().tolist())")
    assert out == "True\n[1.0, 1.0, 1.0]\n"


def test_the_asynchronous_allocator_trains_and_its_pool_shrinks():
    out = run_code("model = nn.Linear(1024, 1024).cuda()\n"
                   "model(torch.randn(8, 1024, device='cuda')).sum().backward()\n"
                   "x = torch.empty(100 << 20, dtype=torch.uint8, device='cuda')\n"
                   "torch.cuda.synchronize()\n"
                   "print(torch.cuda.get_allocator_backend(), torch.cuda.memory_reserved() >= torch.cuda.memory_allocated() >= 100 << 20)\n"
                   "free = torch.cuda.mem_get_info()[0]\n"
                   "del x\n"
                   "torch.cuda.synchronize()  # the pool keeps what it has until it is trimmed\n"
                   "kept = torch.cuda.mem_get_info()[0]\n"
                   "torch.cuda.empty_cache()\n"
                   "print(kept == free, torch.cuda.mem_get_info()[0] - free >= 64 << 20)\n"
                   "try: torch.empty(3 << 30, dtype=torch.uint8, device='cuda')\n"
                   "except torch.OutOfMemoryError: print('caught')", memory="2GiB", PYTORCH_ALLOC_CONF="backend:cudaMallocAsync")
    assert out == "cudaMallocAsync True\nTrue True\ncaught\n"


SMALL_GRAPH = """
model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).cuda()
x = torch.randn(8, 64, device="cuda")
side = torch.cuda.Stream()
side.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(side):
    for i in range(3): model(x)
torch.cuda.current_stream().wait_stream(side)
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph): y = model(x)
for i in range(5): graph.replay()
torch.cuda.synchronize()
print(y.shape[1], torch.cuda.memory_allocated() > 0)
"""


def test_a_graph_with_memory_nodes_is_captured_and_replayed():
    assert run_code(SMALL_GRAPH, PYTORCH_ALLOC_CONF="backend:cudaMallocAsync") == "10 True\n"


def test_pinned_memory_is_pinned_and_copied_without_waiting():
    out = run_code("x = torch.arange(1 << 20, dtype=torch.float32).pin_memory()\n"
                   "y = torch.empty_like(x, device='cuda')\n"
                   "event = torch.cuda.Event()\n"
                   "y.copy_(x, non_blocking=True)\n"
                   "event.record()\n"
                   "event.synchronize()\n"
                   "z = torch.empty_like(x, pin_memory=True)\n"
                   "z.copy_(y, non_blocking=True)\n"
                   "torch.cuda.synchronize()\n"
                   "print(x.is_pinned(), z.is_pinned(), torch.ones(1).is_pinned(), torch.equal(x, z))")
    assert out == "True True False True\n"
