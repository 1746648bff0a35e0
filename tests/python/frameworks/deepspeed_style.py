"""The variables that deepspeed.init_distributed() reads, which it passes to torch in this way."""
import os

import torch
import torch.distributed as dist

rank, size, local = (int(os.environ[name]) for name in ("RANK", "WORLD_SIZE", "LOCAL_RANK"))
assert local < int(os.environ["LOCAL_WORLD_SIZE"])
address = f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
dist.init_process_group("gloo", init_method=address, rank=rank, world_size=size)
total = torch.tensor([rank + 1])
dist.all_reduce(total)
assert total.item() == size * (size + 1) // 2, total
if rank == 0:
    print(f"{size} ranks agree", flush=True)
dist.barrier()
os._exit(0)
