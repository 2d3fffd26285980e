# SPDX-License-Identifier: Apache-2.0
"""pytorch_ddp.py -- the step time of PyTorch's DistributedDataParallel over gloo, started by mpiexec on hosts of scripts/cluster.sh; for exchange.py."""
import argparse
import os
import socket
import statistics
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks

parser = argparse.ArgumentParser()
parser.add_argument('--layers', default='784:2048:2048:2048:10')
parser.add_argument('--per-rank', type=int, default=128)
parser.add_argument('--steps', type=int, default=20)
parser.add_argument('--half', action='store_true', help='gradients travel in float16')
arguments = parser.parse_args()

rank, world = int(os.environ['OMPI_COMM_WORLD_RANK']), int(os.environ['OMPI_COMM_WORLD_SIZE'])
first = socket.gethostname().rpartition('-')[0] + '-1'  # the host of rank 0
os.environ.update(MASTER_ADDR=first, MASTER_PORT='29511', GLOO_SOCKET_IFNAME='eth0')
torch.set_num_threads(1)
dist.init_process_group('gloo', rank=rank, world_size=world)

sizes = [int(n) for n in arguments.layers.split(':')]
layers = []
for a, b in zip(sizes, sizes[1:]):
    layers += [torch.nn.Linear(a, b), torch.nn.ReLU()]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers[:-1]))
if arguments.half:
    model.register_comm_hook(None, default_hooks.fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss = torch.nn.CrossEntropyLoss()
x, y = torch.randn(arguments.per_rank, sizes[0]), torch.randint(0, sizes[-1], (arguments.per_rank,))
seconds = []
for _ in range(arguments.steps + 2):
    start = time.perf_counter()
    optimizer.zero_grad()
    loss(model(x), y).backward()
    optimizer.step()
    seconds.append(time.perf_counter() - start)
if rank == 0:
    print(f'{1e3 * statistics.median(seconds[2:]):.3f} ms a step, {world * arguments.per_rank / statistics.median(seconds[2:]):.1f} samples/s')
dist.destroy_process_group()
