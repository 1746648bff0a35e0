"""Models that compiled_test compiles."""
import torch
import torch.nn.functional as F
from torch import nn


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.widen, self.narrow = nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.narrow(F.gelu(self.widen(self.norm(x))))


class Blocks(nn.Module):
    """A layer, and two equal blocks, which share two libraries."""

    def __init__(self):
        super().__init__()
        self.first, self.blocks = nn.Linear(6, 6), nn.Sequential(*(Block(6) for _ in range(2)))

    def forward(self, x):
        return self.blocks(self.first(x))


class ShiftedBlock(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 6), nn.Linear(6, 6)

    def forward(self, x, shift):
        return x + self.second(torch.tanh(self.first(x) + shift))


class Expanded(nn.Module):
    """Blocks that take an expanded tensor, whose strides have a zero."""

    def __init__(self):
        super().__init__()
        self.shift, self.first = nn.Parameter(torch.randn(6)), nn.Linear(6, 6)
        self.blocks = nn.ModuleList(ShiftedBlock() for _ in range(2))

    def forward(self, x):
        x, shift = self.first(x), torch.sin(self.shift).expand_as(x)
        for block in self.blocks:
            x = block(x, shift)
        return x


class State(nn.Module):
    """Dropout, and batch norm, whose statistics move."""

    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.drop, self.head = nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5), nn.Dropout(0.25), nn.Linear(5, 10)

    def forward(self, x):
        x = torch.relu(self.norm(self.conv(x)))
        dropped = self.drop(torch.ones_like(x))
        return self.head((x * dropped).mean((2, 3))), (dropped.mean() + 0 * x.sum())


class Attending(nn.Module):
    """An attention that views its input as samples times heads."""

    def __init__(self):
        super().__init__()
        self.attention, self.head = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 6)

    def forward(self, x):
        return self.head(x + self.attention(x, x, x, need_weights=False)[0]).mean(1)


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.turns, self.head = nn.LSTM(4, 8, batch_first=True), nn.Linear(8, 6)

    def forward(self, x):
        return self.head(self.turns(x)[0][:, -1])


class Parts(nn.Module):
    """Operators that stay outside of libraries, and a layer that only an output of its own needs."""

    def __init__(self):
        super().__init__()
        self.first, self.table, self.other = nn.Linear(6, 6), nn.Embedding(8, 6, max_norm=1.0), nn.Linear(6, 6)

    def forward(self, x):
        x = self.first(x) + self.table((4 * x.abs()).long() % 8).mean(1)
        left = x[:, :3]
        waves = torch.fft.irfft(torch.fft.rfft(2 * x, dim=1) * torch.arange(4.0), n=6, dim=1)
        left.mul_(0.5)  # changes x
        x = torch.fft.irfft(torch.fft.rfft(x + waves, dim=1), n=6, dim=1)
        return torch.tanh(x), self.other(x)


def blocks():
    return Blocks(), (torch.randn(3, 6),)


def state():
    torch.manual_seed(6)
    return State(), (torch.randn(3, 3, 9, 9),)
