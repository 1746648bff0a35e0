"""Networks of mn::models in Python: the same parameters' names, the same numbers. jobs compile them with --compile."""
import math
import types

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

    def __init__(self, vocabulary, positions, layers, heads, width, dropout):
        super().__init__()
        self.dropout = dropout
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(positions, width)
        self.h = nn.ModuleList(Layer(heads, width, dropout) for _ in range(layers))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        positions = torch.arange(tokens.shape[1], device=tokens.device)
        x = F.dropout(self.wte(tokens) + self.wpe(positions), self.dropout, self.training)
        for layer in self.h:
            x = layer(x)
        return F.linear(self.ln_f(x), self.wte.weight)


class RmsNorm(nn.Module):
    def __init__(self, width, eps):
        super().__init__()
        self.weight, self.eps = nn.Parameter(torch.ones(width)), eps

    def forward(self, x):
        return F.rms_norm(x, self.weight.shape, self.weight, self.eps)


def rotation(length, width, device, base, scaling, factor, low, high, original_context):
    """Cosines and sines (length, width / 2) of rotary embeddings."""
    frequencies = base ** -(torch.arange(0, width, 2, dtype=torch.float, device=device) / width)
    if scaling == "linear":
        frequencies = frequencies / factor
    if scaling == "llama3":
        periods = frequencies * (original_context / (2 * math.pi))
        kept = ((periods - low) / (high - low)).clamp(0, 1)
        frequencies = frequencies * (kept + (1 - kept) / factor)
    angles = torch.arange(length, dtype=torch.float, device=device).unsqueeze(1) * frequencies
    return angles.cos(), angles.sin()


def rotate(x, cosine, sine):
    first, second = x.chunk(2, -1)
    cosine, sine = cosine.to(x.dtype), sine.to(x.dtype)
    return torch.cat((first * cosine - second * sine, second * cosine + first * sine), -1)


class GroupedAttention(nn.Module):
    def __init__(self, size, window):
        super().__init__()
        self.size, self.window = size, window
        own, shared = (heads * size.head_width for heads in (size.heads, size.key_value_heads))
        self.q_proj, self.k_proj, self.v_proj = (
            nn.Linear(size.width, width, size.query_bias) for width in (own, shared, shared))
        self.o_proj = nn.Linear(own, size.width, size.output_bias)
        self.q_norm, self.k_norm = (RmsNorm(size.head_width, size.eps) if size.normalizes_heads else nn.Identity()
                                    for _ in range(2))

    def forward(self, x, cosine, sine):
        query, key, value = (layer(x).unflatten(-1, (-1, self.size.head_width))
                             for layer in (self.q_proj, self.k_proj, self.v_proj))
        query, key = (rotate(each.transpose(1, 2), cosine, sine) for each in (self.q_norm(query), self.k_norm(key)))
        mask = None
        if 0 < self.window < x.shape[1]:
            numbers = torch.arange(x.shape[1], device=x.device)
            distances = numbers.unsqueeze(1) - numbers
            mask = (distances >= 0) & (distances < self.window)
        seen = F.scaled_dot_product_attention(
            query, key, value.transpose(1, 2), mask, self.size.dropout if self.training else 0, is_causal=mask is None,
            enable_gqa=self.size.heads != self.size.key_value_heads)
        return self.o_proj(seen.transpose(1, 2).flatten(2))


class GatedPerceptron(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.gate_proj, self.up_proj = (nn.Linear(size.width, size.hidden, size.perceptron_bias) for _ in range(2))
        self.down_proj = nn.Linear(size.hidden, size.width, size.perceptron_bias)

    def forward(self, x):
        return self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))


class LlamaLayer(nn.Module):
    def __init__(self, size, window):
        super().__init__()
        self.self_attn, self.mlp = GroupedAttention(size, window), GatedPerceptron(size)
        self.input_layernorm, self.post_attention_layernorm = (RmsNorm(size.width, size.eps) for _ in range(2))

    def forward(self, x, cosine, sine):
        x = x + self.self_attn(self.input_layernorm(x), cosine, sine)
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """mn::models::Llama. The sizes are LlamaOptions's."""

    def __init__(self, **sizes):
        super().__init__()
        size = self.size = types.SimpleNamespace(**sizes)
        self.model = nn.Module()
        self.model.embed_tokens, self.model.norm = nn.Embedding(size.vocabulary, size.width), RmsNorm(size.width, size.eps)
        self.model.layers = nn.ModuleList(LlamaLayer(size, size.window if i >= size.first_windowed else 0)
                                          for i in range(size.layers))
        self.lm_head = None if size.tied else nn.Linear(size.width, size.vocabulary, False)

    def forward(self, tokens):
        cosine, sine = rotation(tokens.shape[1], self.size.head_width, tokens.device, **self.size.rotary)
        x = self.model.embed_tokens(tokens)
        for layer in self.model.layers:
            x = layer(x, cosine, sine)
        return F.linear(self.model.norm(x), (self.lm_head or self.model.embed_tokens).weight)


def convolution(channels, out, kernel, stride):
    return nn.Conv2d(channels, out, kernel, stride, kernel // 2, bias=False)


class ResNetBlock(nn.Module):
    def __init__(self, convolutions, channels, width, stride):
        super().__init__()
        out = width if convolutions == 2 else 4 * width
        forms = ([(channels, width, 3, stride), (width, width, 3, 1)] if convolutions == 2 else
                 [(channels, width, 1, 1), (width, width, 3, stride), (width, out, 1, 1)])
        for i, form in enumerate(forms):
            self.add_module(f"conv{i + 1}", convolution(*form))
            self.add_module(f"bn{i + 1}", nn.BatchNorm2d(form[1]))
        self.convolutions, self.downsample = convolutions, None
        if stride > 1 or channels != out:
            self.downsample = nn.Sequential(convolution(channels, out, 1, stride), nn.BatchNorm2d(out))

    def forward(self, x):
        y = x
        for i in range(1, self.convolutions + 1):
            y = getattr(self, f"bn{i}")(getattr(self, f"conv{i}")(y))
            if i < self.convolutions:
                y = F.relu(y)
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    """ResNet-18 and -50 of mn::models."""

    def __init__(self, convolutions, blocks, classes):
        super().__init__()
        self.conv1, self.bn1 = convolution(3, 64, 7, 2), nn.BatchNorm2d(64)
        channels = 64
        for i, count in enumerate(blocks):
            stage = nn.Sequential()
            for block in range(count):
                stage.append(ResNetBlock(convolutions, channels, 64 << i, 2 if i and block == 0 else 1))
                channels = (64 << i) * (1 if convolutions == 2 else 4)
            self.add_module(f"layer{i + 1}", stage)
        self.fc = nn.Linear(channels, classes)

    def forward(self, images):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(images))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


def make(network, batch, **sizes):
    """The network, and a minibatch of its inputs."""
    if network == "resnet":
        side = sizes.pop("image_size")
        return ResNet(**sizes), (torch.randn(batch, 3, side, side),)
    context = sizes.pop("context")
    return NETWORKS[network](**sizes), (torch.randint(sizes["vocabulary"], (batch, context)),)


NETWORKS = {"gpt": Gpt, "llama": Llama, "resnet": ResNet}
