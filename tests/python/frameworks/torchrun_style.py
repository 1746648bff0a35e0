"""As torchrun starts it: the process group comes from the environment alone."""
import os

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(int(os.environ["RANK"]))
model = DistributedDataParallel(torch.nn.Linear(4, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(2):
    optimizer.zero_grad()
    model(torch.full((2, 4), float(dist.get_rank() + step))).sum().backward()
    optimizer.step()
weights = [torch.zeros(1, 4) for _ in range(dist.get_world_size())]
dist.all_gather(weights, model.module.weight.data)
assert all(torch.equal(weights[0], other) for other in weights), weights
if dist.get_rank() == 0:
    print(f"{dist.get_world_size()} ranks agree", flush=True)
dist.barrier()
os._exit(0)  # the interpreter's end and torch's own threads race now and then
