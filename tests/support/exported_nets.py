"""The small models that export_models exports."""
import collections

import torch
import torch.nn.functional as F
from torch import nn
from torch.ao.quantization import FusedMovingAvgObsFakeQuantize
from torch._higher_order_ops.map import map as map_rows
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.utils import _pytree


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 5)
        self.second = nn.Linear(5, 2)

    def forward(self, x):
        return self.second(torch.tanh(self.first(x)))


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Conv2d(2, 4, 3, padding=1, bias=False), nn.BatchNorm2d(4), nn.InstanceNorm2d(4),
                                    nn.ReLU(inplace=True), nn.MaxPool2d(2), nn.Conv2d(4, 3, 1), nn.BatchNorm2d(3),
                                    nn.Dropout(0.0))
        self.head = nn.Linear(3, 2)

    def forward(self, x):
        return self.head(F.adaptive_avg_pool2d(self.layers(x), 1).flatten(1))


class Gpt(nn.Module):
    """A language model of one block, whose embedding is its last layer too."""

    def __init__(self):
        super().__init__()
        self.tokens = nn.Embedding(11, 8)
        self.positions = nn.Embedding(6, 8)
        self.norm1, self.norm2, self.norm3 = nn.LayerNorm(8), nn.LayerNorm(8), nn.LayerNorm(8)
        self.attend, self.project = nn.Linear(8, 24), nn.Linear(8, 8)
        self.widen, self.narrow = nn.Linear(8, 16), nn.Linear(16, 8)
        self.head = nn.Linear(8, 11, bias=False)
        self.head.weight = self.tokens.weight

    def forward(self, tokens):
        n, length = tokens.shape
        x = self.tokens(tokens) + self.positions(torch.arange(length, device=tokens.device))
        q, k, v = (part.view(n, length, 2, 4).transpose(1, 2) for part in self.attend(self.norm1(x)).split(8, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.project(y.transpose(1, 2).contiguous().view(n, length, 8))
        x = x + self.narrow(F.gelu(self.widen(self.norm2(x)), approximate="tanh"))
        return self.head(self.norm3(x))


class Dropout(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 16)
        self.drop = nn.Dropout(0.5)
        self.second = nn.Linear(16, 2)

    def forward(self, x):
        return self.second(self.drop(self.first(x)))


class Forms(nn.Module):
    """Many forms of arguments and results, computed with sizes, inner graphs, constants, and kinds of parameters."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(8, 24)
        self.frozen = nn.Parameter(torch.randn(8), requires_grad=False)
        self.turned = nn.Parameter(torch.randn(8, 4).t())
        self.conv = nn.Conv2d(1, 2, 3).to(memory_format=torch.channels_last)
        self.register_buffer("mask", torch.tril(torch.ones(9, 9, dtype=torch.bool)))
        self.register_buffer("scale", torch.tensor(0.5, dtype=torch.float64))
        self.register_buffer("offsets", torch.arange(9), persistent=False)
        self.constant = torch.linspace(0, 1, 8)

    def forward(self, x, weights=None, times=2, *, other):
        n, length, width = x.shape
        q, k, v = self.mix(x).chunk(3, -1)
        scores = (q @ k.transpose(-2, -1)) * width**-0.5
        scores = scores.masked_fill(~self.mask[:length, :length], float("-inf")).softmax(-1)
        y = torch.einsum("nij,njk->nik", scores, v).reshape(n * length, width).view(-1, length, width)
        with torch.no_grad():
            mean = y.mean()
        with torch.autocast("cpu", enabled=False):
            y = y + F.linear(F.linear(y, self.turned), self.turned.t())
        y = y * self.frozen + self.constant + mean + self.offsets[None, :length, None] * self.scale.to(x.dtype)
        y = y[:, torch.arange(length, device=x.device)] + x.new_zeros(n, 1, 1) * times
        image = F.interpolate(self.conv(y.unsqueeze(1)), scale_factor=2.0, mode="bilinear").to(torch.float32)
        best = y.max(dim=-1)
        return {"image": image.sum((1, 2)), "none": None, "y": y * other * n, "best": best.values, "index": best.indices}


class Random(nn.Module):
    """Drops whole samples by numbers that it draws itself."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        keep = torch.empty(x.shape[0], 1).bernoulli_(0.5) if self.training else 1.0
        return self.layer(x) * keep


class Flow(nn.Module):
    """torch.cond, while_loop, map and scan; with `plain` the same in Python's own words."""

    def __init__(self, plain=False):
        super().__init__()
        self.yes, self.no, self.turn, self.step = (nn.Linear(4, 4) for _ in range(4))
        self.norm = nn.BatchNorm1d(4)
        self.plain = plain

    def choose(self, x):
        yes, no = (lambda x: torch.relu(self.yes(x))), (lambda x: torch.cos(self.no(x)) * 2)
        if self.plain:
            return yes(x) if x.sum() > 0 else no(x)
        return torch.cond(x.sum() > 0, yes, no, (x,))

    def repeat(self, x):
        again, turn = (lambda i, x: i < 3), (lambda i, x: (i + 1, torch.tanh(self.turn(x))))
        i = torch.zeros((), dtype=torch.long, device=x.device)
        if not self.plain:
            return while_loop(again, turn, (i, x))[1]
        while again(i, x):
            i, x = turn(i, x)
        return x

    def walk(self, x):
        """Over the second dimension of [N, L, 4]."""
        def combine(carried, row):
            carried = torch.tanh(self.step(row)) + carried
            return carried, carried * 2

        start = x.new_zeros(x.shape[0], 4)
        if not self.plain:
            return scan(combine, start, x, dim=1)
        carried, rows = start, []
        for i in range(x.shape[1]):
            carried, row = combine(carried, x[:, i])
            rows.append(row)
        return carried, torch.stack(rows)

    def forward(self, x):
        chosen = self.choose(x)
        repeated = self.repeat(chosen)
        each = lambda row, by: self.yes(row) * by  # noqa: E731
        by = repeated.mean()
        mapped = torch.stack([each(row, by) for row in x]) if self.plain else map_rows(each, x, by)
        last, rows = self.walk(mapped)
        # A sum of squares of what is normalized alone has gradients that cancel.
        return {"chosen": self.norm(chosen.flatten(0, 1)) * self.turn.bias + chosen.flatten(0, 1), "walk": {"last": last, "rows": rows}}


class Complex(nn.Module):
    """A complex parameter and a complex buffer that changes."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(5, 3, dtype=torch.complex64))
        self.register_buffer("shift", torch.randn(3, dtype=torch.complex64))
        self.head = nn.Linear(6, 2)

    def forward(self, x):
        y = torch.fft.rfft(x) @ self.weight * (1 - 2j)
        if self.training:
            self.shift.mul_(0.5j)
        return self.head(torch.view_as_real(y + self.shift).flatten(1))


class Outputs(nn.Module):
    """All kinds of containers."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)

    def forward(self, x):
        y = self.layer(x)
        return {"pair": Pair(first=y, second=[y + 1, None]), "by_order": collections.OrderedDict(b=y, a=y * 2)}


Pair = collections.namedtuple("Pair", ["first", "second"])
_pytree._register_namedtuple(Pair, serialized_type_name="Pair")


class Frozen(nn.Module):
    """A batch norm in evaluation mode whose weights do not train."""

    def __init__(self):
        super().__init__()
        self.layer, self.norm = nn.Linear(3, 2), nn.BatchNorm1d(2).eval().requires_grad_(False)

    def forward(self, x):
        return self.norm(self.layer(x))


class State(nn.Module):
    """What training changes beside what the optimizer does: an argument, a queue of which a part is written, a frozen
    teacher that follows, the range of a quantization, and the rows of an embedding that are too long."""

    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(7, 4, max_norm=0.5)
        self.layer, self.teacher = nn.Linear(4, 3), nn.Linear(4, 3).requires_grad_(False)
        self.quantize = FusedMovingAvgObsFakeQuantize()
        self.register_buffer("queue", torch.randn(3, 6))

    def forward(self, x, words):
        x.mul_(2)
        z = F.normalize(self.layer(self.quantize(x) + self.embedding(words)), dim=1)
        scores = torch.cat([z @ self.queue.clone(), self.teacher(x)], 1)
        if self.training:
            with torch.no_grad():
                self.queue[:, :2] = z[:2].t()
                for own, other in zip(self.teacher.parameters(), self.layer.parameters()):
                    own.view(-1).mul_(0.9).add_(other.view(-1), alpha=0.1)
        return scores


class Moving(nn.Module):
    """Subtracts a moving mean, which training alone moves."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.register_buffer("mean", torch.randn(3))

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
        return self.layer(x - self.mean)


class Assigned(nn.Module):
    """Training replaces a buffer by assignment, before or after the output reads the buffer."""

    def __init__(self, before):
        super().__init__()
        self.before = before
        self.layer = nn.Linear(3, 2)
        self.register_buffer("scale", torch.rand(2) + 0.5)

    def forward(self, x):
        y, old = self.layer(x), self.scale
        if self.training:
            self.scale = 0.9 * old + 0.1 * y.detach().mean(0)
        return y * (self.scale if self.before else old)
