"""jobs/mnist in Python: the same model, batch and optimizer with DistributedDataParallel over gloo.

Run once for each rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Rank 0 prints images/s of the epochs after
the first, training alone. The samples lie in memory as float32 and a batch is one index_select, so no time goes into
worker processes.
"""
import argparse
import gzip
import time

import numpy
import torch
import torch.distributed as dist
from torch.nn.functional import cross_entropy


def read_idx(path, header):
    with gzip.open(path) as file:
        return torch.from_numpy(numpy.frombuffer(file.read(), numpy.uint8, offset=header).copy())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", required=True)
    parser.add_argument("--batchsize", type=int, default=100)
    parser.add_argument("--unit", type=int, default=1000)
    parser.add_argument("--epoch", type=int, default=3)
    parser.add_argument("--fused", action="store_true", help="Adam(fused=True)")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    images = read_idx(f"{args.data}/train-images-idx3-ubyte.gz", 16).view(-1, 784).float().div_(255)
    labels = read_idx(f"{args.data}/train-labels-idx1-ubyte.gz", 8).long()

    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(784, args.unit), torch.nn.ReLU(),
        torch.nn.Linear(args.unit, args.unit), torch.nn.ReLU(),
        torch.nn.Linear(args.unit, 10))
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    optimizer = torch.optim.Adam(model.parameters(), fused=args.fused)

    seconds, steps = 0.0, len(labels) // (args.batchsize * size)
    for epoch in range(args.epoch):
        order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(epoch))
        dist.barrier()
        start = time.perf_counter()
        for step in range(steps):
            first = (step * size + rank) * args.batchsize
            chosen = order[first:first + args.batchsize]
            optimizer.zero_grad()
            output = model(images[chosen])
            target = labels[chosen]
            (output.argmax(1) == target).float().mean().item()
            cross_entropy(output, target).backward()
            optimizer.step()
        dist.barrier()
        if epoch > 0:
            seconds += time.perf_counter() - start
    if rank == 0:
        print(f"{(args.epoch - 1) * steps * args.batchsize * size / seconds:.0f}")
    dist.destroy_process_group()


main()
