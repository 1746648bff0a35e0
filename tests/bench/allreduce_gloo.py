"""Times of c10d's allreduce over gloo, float32, as allreduce_bench takes those of mn: the best of batches, per call.

Run once for each rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Rank 0 prints KiB and microseconds.
"""
import sys
import time

import torch
import torch.distributed as dist

most_kib, batches = int(sys.argv[1]), int(sys.argv[2])
dist.init_process_group("gloo")


def seconds_per_call(data, repeats):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(repeats):
        dist.all_reduce(data)
    seconds = torch.tensor([(time.perf_counter() - start) / repeats], dtype=torch.float64)
    dist.all_reduce(seconds, dist.ReduceOp.MAX)
    return seconds.item()


kib = 1
while kib <= most_kib:
    values = torch.zeros(kib * 256)
    seconds_per_call(values, 2)
    calls = min(max(int(0.001 / seconds_per_call(values, 3)), 1), 10_000)
    best = min(seconds_per_call(values, calls) for _ in range(batches))
    if dist.get_rank() == 0:
        print(kib, best * 1e6, flush=True)
    kib *= 4
dist.destroy_process_group()
