"""jobs/gpt in Python: the same network, minibatches and optimizer with DistributedDataParallel over gloo.

Run once for each rank with RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT set. Rank 0 prints samples/s of the updates after
the first fifth, training alone. The tokens lie in memory and a minibatch is one index_select, so no time goes into worker
processes.
"""
import argparse
import math
import pathlib
import time

import h5py
import torch
import torch.distributed as dist
from torch import nn
from torch.nn import functional as F

CONTEXT, LAYERS, HEADS, WIDTH, BATCHSIZE = 64, 4, 4, 128, 12


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.c_attn, self.attn_proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.c_fc, self.mlp_proj = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        count, length, _ = x.shape
        query, key, value = self.c_attn(self.ln_1(x)).view(count, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.attn_proj(seen.transpose(1, 2).reshape(count, length, WIDTH))
        return x + self.mlp_proj(F.gelu(self.c_fc(self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, tokens):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(tokens, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        self.h = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.ln_f = nn.LayerNorm(WIDTH)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1]))
        for layer in self.h:
            x = layer(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def read_tokens(folder):
    """(samples, CONTEXT + 1), and the number of the vocabulary's tokens."""
    parts = []
    with h5py.File(pathlib.Path(folder, "manifest.h5")) as manifest:
        names = [name.decode() for name in manifest["file"][:]]
    for name in names:
        with h5py.File(pathlib.Path(folder, name)) as shard:
            parts.append(torch.from_numpy(shard["data/tokens"][:]))
    samples = torch.cat(parts)
    return samples, int(samples.max()) + 1


def rate_at(update, updates):
    """The cosine to 1e-4 after 100 updates of warm-up."""
    if update < 100:
        return 0.003 * (update + 1) / 100
    passed = (update - 100) / max(1, updates - 100)
    return 1e-4 + (0.003 - 1e-4) * (1 + math.cos(math.pi * passed)) / 2


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train", required=True)
    parser.add_argument("--iterations", type=int, required=True)
    parser.add_argument("--fused", action="store_true", help="AdamW(fused=True)")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    samples, vocabulary = read_tokens(args.train)
    torch.manual_seed(0)
    model = Gpt(vocabulary)
    decayed = [parameter for parameter in model.parameters() if parameter.dim() >= 2]
    others = [parameter for parameter in model.parameters() if parameter.dim() < 2]
    optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
                                  betas=(0.9, 0.99), fused=args.fused)
    model = torch.nn.parallel.DistributedDataParallel(model, gradient_as_bucket_view=True)
    order = torch.randperm(len(samples), generator=torch.Generator().manual_seed(0))
    begin = args.iterations // 5
    for update in range(args.iterations):
        if update == begin:
            dist.barrier()
            start = time.perf_counter()
        first = (update * size + rank) * BATCHSIZE % (len(order) - BATCHSIZE)
        chosen = samples[order[first:first + BATCHSIZE]].long()
        for group in optimizer.param_groups:
            group["lr"] = rate_at(update, args.iterations)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(chosen[:, :-1]).flatten(0, 1), chosen[:, 1:].flatten())
        loss.item()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1)
        optimizer.step()
    dist.barrier()
    if rank == 0:
        print(f"{(args.iterations - begin) * BATCHSIZE * size / (time.perf_counter() - start):.0f}")
    dist.destroy_process_group()


main()
