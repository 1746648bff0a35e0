"""Networks of mn::models in Python: the same parameters' names, the same numbers. jobs compile them with --compile."""
import torch
from torch import nn
from torch.nn import functional as F


class Attention(nn.Module):
    def __init__(self, heads, width, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.c_attn, self.c_proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        count, length, width = x.shape
        query, key, value = (each.view(count, length, self.heads, -1).transpose(1, 2)
                             for each in self.c_attn(x).split(width, 2))
        seen = F.scaled_dot_product_attention(query, key, value, is_causal=True,
                                              dropout_p=self.dropout if self.training else 0)
        return F.dropout(self.c_proj(seen.transpose(1, 2).flatten(2)), self.dropout, self.training)


class Perceptron(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.dropout = dropout
        self.c_fc, self.c_proj = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        hidden = F.gelu(self.c_fc(x), approximate="tanh")
        return F.dropout(self.c_proj(hidden), self.dropout, self.training)


class Layer(nn.Module):
    def __init__(self, heads, width, dropout):
        super().__init__()
        self.ln_1, self.attn = nn.LayerNorm(width), Attention(heads, width, dropout)
        self.ln_2, self.mlp = nn.LayerNorm(width), Perceptron(width, dropout)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Gpt(nn.Module):
    """mn::models::Gpt without experts."""

    def __init__(self, vocabulary, context, layers, heads, width, dropout):
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(context, width)
        self.h = nn.ModuleList(Layer(heads, width, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = F.dropout(self.wte(tokens) + self.wpe(positions), self.dropout, self.training)
        for layer in self.h:
            x = layer(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def gpt(batch, context, vocabulary, **sizes):
    return Gpt(vocabulary, context, **sizes), (torch.randint(vocabulary, (batch, context)),)


NETWORKS = {"gpt": gpt}
