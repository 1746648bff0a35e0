"""jobs/gpt in Python: the same network, minibatches and optimizer over gloo, with DistributedDataParallel or sharded.

Run once for each rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Rank 0 prints samples/s of the updates after
the first fifth, training alone. The tokens lie in memory and a minibatch is one index_select, so no time goes into worker
processes.
"""
import argparse
import math
import pathlib
import sys
import time

import h5py
import numpy
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn import functional as F

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "support"))
import safetensors_file

CONTEXT = 64
NAMES = {"c_attn": "attn.c_attn", "attn_proj": "attn.c_proj", "c_fc": "mlp.c_fc", "mlp_proj": "mlp.c_proj"}  # of jobs/gpt


class Layer(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.c_attn, self.attn_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.c_fc, self.mlp_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        count, length, width = x.shape
        query, key, value = self.c_attn(self.ln_1(x)).view(count, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn_proj(seen.transpose(1, 2).reshape(count, length, width))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, tokens, layers, heads, width):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, width), nn.Embedding(CONTEXT, width)
        self.h = nn.ModuleList(Layer(heads, width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for layer in self.h:
            x = layer(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def read_tokens(name):
    """(samples, CONTEXT + 1), and the number of the vocabulary's tokens. FOLDER@FILE: the samples that the file numbers."""
    folder, _, few = name.partition("@")
    parts = []
    with h5py.File(pathlib.Path(folder, "manifest.h5")) as manifest:
        names = [name.decode() for name in manifest["file"][:]]
    for name in names:
        with h5py.File(pathlib.Path(folder, name)) as shard:
            parts.append(torch.from_numpy(shard["data/tokens"][:]))
    samples = torch.cat(parts)
    chosen = samples[numpy.loadtxt(few, dtype=int)] if few else samples
    return chosen, int(samples.max()) + 1


def rate_at(update, updates):
    """The cosine to 1e-4 after 100 updates of warm-up."""
    if update < 100:
        return 0.003 * (update + 1) / 100
    passed = (update - 100) / max(1, updates - 100)
    return 1e-4 + (0.003 - 1e-4) * (1 + math.cos(math.pi * passed)) / 2


def groups(model):
    return [{"params": [each for each in model.parameters() if (each.dim() >= 2) == decays],
             "weight_decay": 0.1 if decays else 0} for decays in (True, False)]


def shard(model, what, **adamw):
    """The model and the optimizer, whose ranks divide what jobs/gpt's --shard names."""
    if what in ("gradients", "parameters"):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for module in (*model.h, model):
            fully_shard(module, mesh=mesh, reshard_after_forward=what == "parameters")
        return model, torch.optim.AdamW(groups(model), **adamw)
    optimizer = torch.optim.AdamW(groups(model), **adamw) if what == "none" else \
        ZeroRedundancyOptimizer(groups(model), optimizer_class=torch.optim.AdamW, **adamw)
    return nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True), optimizer


def mean_over_ranks(loss):
    mean = loss.detach().clone()
    dist.all_reduce(mean, dist.ReduceOp.AVG)
    return mean.item()


def parse_arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--batchsize", type=int, default=12)
    parser.add_argument("--lr", type=float, help="this rate in all updates")
    parser.add_argument("--fused", action="store_true", help="AdamW(fused=True)")
    parser.add_argument("--compile", action="store_true", help="torch.compile")
    parser.add_argument("--shard", choices=("none", "optimizer", "gradients", "parameters"), default="none",
                        help="DistributedDataParallel; with ZeroRedundancyOptimizer; FSDP2, which frees no parameters; FSDP2")
    parser.add_argument("--losses", action="store_true", help="print the loss of each update instead of the rate")
    parser.add_argument("--save-initial", help="file for the initial weights, as jobs/gpt reads them")
    return parser.parse_args()


def main():
    args = parse_arguments()
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    samples, vocabulary = read_tokens(args.train)
    torch.manual_seed(0)
    model = Gpt(vocabulary, args.layers, args.heads, args.width)
    if args.save_initial and rank == 0:
        safetensors_file.save(args.save_initial, {".".join(NAMES.get(part, part) for part in name.split(".")): tensor
                                                  for name, tensor in model.named_parameters()})
    model, optimizer = shard(model, args.shard, lr=0.003, betas=(0.9, 0.99), fused=args.fused)
    if args.compile:
        model = torch.compile(model)
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
    begin = args.iterations // 5
    for update in range(args.iterations):
        if update == begin:
            dist.barrier()
            start = time.perf_counter()
        first = (update * size + rank) * args.batchsize
        chosen = samples[order[torch.arange(first, first + args.batchsize) % len(order)]].long()
        for group in optimizer.param_groups:
            group["lr"] = args.lr or rate_at(update, args.iterations)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(chosen[:, :-1]).flatten(0, 1), chosen[:, 1:].flatten())
        loss.item()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
        if args.losses:
            mean = mean_over_ranks(loss)
            if rank == 0:
                print(f"{mean:.6f}")
    dist.barrier()
    if rank == 0 and not args.losses:
        print(f"{(args.iterations - begin) * args.batchsize * size / (time.perf_counter() - start):.2f}")
    dist.destroy_process_group()


main()
