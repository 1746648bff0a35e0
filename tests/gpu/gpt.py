#!/usr/bin/env python3
"""The time of a training step of GPT-2's 124M network in Python's torch on random tokens, for comparison with gpt_step:
the same network, precision (bf16 autocast), batch, optimizer and clipping, written as nanoGPT writes it, with flash
attention and AdamW(fused=True); one JSON line for each batch size.

Ways: eager; compile, where the model goes through torch.compile.
"""
import argparse
import json

import torch
from torch import nn
from torch.nn import functional as F

from step_timing import measure


class Attention(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.heads = heads
        self.c_attn = nn.Linear(width, 3 * width)
        self.c_proj = nn.Linear(width, width)

    def forward(self, x):
        count, length, width = x.shape
        query, key, value = (part.view(count, length, self.heads, width // self.heads).transpose(1, 2)
                             for part in self.c_attn(x).split(width, dim=2))
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.c_proj(seen.transpose(1, 2).contiguous().view(count, length, width))


class Perceptron(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.c_fc = nn.Linear(width, 4 * width)
        self.c_proj = nn.Linear(4 * width, width)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))  # as GPT-2 and mn; nanoGPT's is exact


class Layer(nn.Module):
    def __init__(self, heads, width):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(heads, width)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Perceptron(width)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """Its parameters have the names that mn's have."""

    def __init__(self, tokens, context, layers, heads, width):
        super().__init__()
        self.wte = nn.Embedding(tokens, width)
        self.wpe = nn.Embedding(context, width)
        self.h = nn.ModuleList(Layer(heads, width) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)
        for parameter in self.parameters():
            if parameter.dim() >= 2:
                nn.init.normal_(parameter, 0, 0.02)

    def forward(self, tokens, targets):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for layer in self.h:
            x = layer(x)
        logits = F.linear(self.ln_f(x), self.wte.weight)
        return F.cross_entropy(logits.view(-1, logits.shape[-1]), targets.view(-1))


class Training:
    def __init__(self, options, batch, device):
        torch.manual_seed(0)
        self.device = device
        self.precision = options.precision
        tokens = torch.randint(options.vocabulary_size, (batch, options.context + 1))
        self.tokens, self.targets = (part.contiguous().to(device) for part in (tokens[:, :-1], tokens[:, 1:]))
        self.model = Gpt(options.vocabulary_size, options.context, options.layers, options.heads, options.width).to(device)
        self.parameters = sum(parameter.numel() for parameter in self.model.parameters())
        decayed = [parameter for parameter in self.model.parameters() if parameter.dim() >= 2]
        others = [parameter for parameter in self.model.parameters() if parameter.dim() < 2]
        self.optimizer = torch.optim.AdamW([{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0}],
                                           lr=0.003, betas=(0.9, 0.99), fused=True)
        if options.way == "compile":
            self.model = torch.compile(self.model, dynamic=False)

    def step(self):
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.precision == "bf16"):
            loss = self.model(self.tokens, self.targets)
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1)
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--way", choices=["eager", "compile"], default="eager")
    parser.add_argument("--batches", default="16,32", help="samples of a minibatch, one after the other")
    parser.add_argument("--precision", choices=["fp32", "bf16"], default="bf16")
    parser.add_argument("--vocabulary-size", type=int, default=50304)
    parser.add_argument("--context", type=int, default=1024, help="tokens of a sample")
    parser.add_argument("--layers", type=int, default=12)
    parser.add_argument("--heads", type=int, default=12)
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--seconds", type=float, default=4, help="to measure each for")
    parser.add_argument("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


def main():
    options = parse()
    on_gpu = torch.cuda.is_available() if options.device == "auto" else options.device == "cuda"
    device = torch.device("cuda" if on_gpu else "cpu")
    for batch in [int(n) for n in options.batches.split(",")]:
        training = Training(options, batch, device)
        figures = measure(training.step, device, options.seconds)
        line = {"who": "torch", "way": options.way, "ranks": 1, "batch": batch,
                "tokens_per_second": batch * options.context / figures["step_ms"] * 1e3,
                "parameters": training.parameters, "layers": options.layers, "width": options.width,
                "context": options.context, **figures}
        print(json.dumps(line), flush=True)
        del training


if __name__ == "__main__":
    main()
