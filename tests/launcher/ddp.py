"""A torch.distributed program that knows nothing of mn: its place comes from the variables that mnlaunch exports."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
rank, size = dist.get_rank(), dist.get_world_size()
assert rank == int(os.environ["MN_RANK"]), (rank, os.environ["MN_RANK"])
torch.manual_seed(rank)
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(3):
    optimizer.zero_grad()
    model(torch.full((2, 4), float(rank + step))).sum().backward()
    optimizer.step()
weights = [torch.zeros(1, 4) for _ in range(size)]
dist.all_gather(weights, model.module.weight.data)
assert all(torch.equal(weights[0], other) for other in weights), weights
if rank == 0:
    print(f"{size} ranks agree", flush=True)
dist.barrier()
dist.destroy_process_group()
os._exit(0)  # the interpreter's end and torch's own threads race now and then
