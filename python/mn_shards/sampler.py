"""mn's sampler: runtime/mn/data/sampler.cpp, class GlobalSampler."""
import os

import numpy as np

from .order import EpochOrder, OrderOptions, default_order, step_samples
from .table import DataError


class ShardSampler:
    """The minibatches of one rank, as lists of sample numbers: a batch_sampler for torch.utils.data.DataLoader.

    All ranks must give equal arguments, except `rank`; rank and ranks come from RANK and WORLD_SIZE, which mnlaunch and
    torchrun set. A step takes the next batch_size × ranks samples of the epoch's order, and all ranks have equally
    many steps. With even_last, the last two steps of an epoch share the remaining samples evenly; without, the last is
    short. Each iteration goes on from the position to the epoch's end; set_epoch() begins an epoch."""

    def __init__(self, dataset, batch_size, rank=None, ranks=None, *, shuffle=False, seed=0, drop_last=False,
                 even_last=True):
        self.rank = int(os.environ.get("RANK", 0)) if rank is None else rank
        self.ranks = int(os.environ.get("WORLD_SIZE", 1)) if ranks is None else ranks
        self._size, self._fingerprint = len(dataset), dataset.table.fingerprint
        self.batch_size, self.seed, self._drop_last, self._even_last = batch_size, seed, drop_last, even_last
        self._check()
        self._order_options = default_order(self._size, dataset.table.layout, shuffle, self.ranks)
        self.set_epoch(0)

    def _check(self):
        if not 0 <= self.rank < self.ranks:
            raise ValueError(f"rank {self.rank} of {self.ranks} ranks")
        if self.batch_size < 1:
            raise ValueError(f"batch size {self.batch_size}: at least 1 sample a rank is needed")
        if self._size == 0:
            raise ValueError("there are no samples: the dataset is empty")
        if self._size < self.ranks:
            raise ValueError(f"there are more ranks ({self.ranks}) than samples ({self._size})")
        if self._drop_last and self._size // self.ranks < self.batch_size:
            raise ValueError(f"a step takes {self.batch_size} × {self.ranks} samples, but there are only {self._size}: "
                             "dropping the short last step leaves none; use a smaller batch size")

    def set_epoch(self, epoch):
        self._move(epoch, 0)

    def _move(self, epoch, consumed):
        self.epoch, self.consumed = epoch, consumed
        self._begin = (epoch, consumed)  # where the iteration begins

    def __len__(self):
        """Steps of a whole epoch, equal on all ranks."""
        step = self.batch_size * self.ranks
        return self._size // step if self._drop_last else -(-self._size // step)

    def _next(self, consumed):
        """The position after the step that begins at `consumed`, and whether the step ends the epoch; None: the epoch
        has no further step."""
        whole, left = self.batch_size * self.ranks, self._size - consumed
        halve = self._even_last and not self._drop_last and whole < left < 2 * whole
        last = consumed + ((left + 1) // 2 if halve else min(whole, left))
        if last == consumed or self._drop_last and last - consumed < whole:
            return None
        return last, last == self._size or self._drop_last and self._size - last < whole

    def __iter__(self):
        self._begin = (self.epoch, self.consumed)
        epoch, first = self._begin
        order = EpochOrder(self._size, self._order_options, self.seed, epoch)
        step = self._next(first)
        if step is None:  # a state of another batch size, after which less than a step was left
            self.epoch, self.consumed = epoch + 1, 0
        while step is not None:
            last, ends_epoch = step
            self.epoch, self.consumed = (epoch + 1, 0) if ends_epoch else (epoch, last)
            yield step_samples(order, first, last, self.rank, self.ranks).tolist()
            first, step = last, None if ends_epoch else self._next(last)

    def state_dict(self, batches=None):
        """A state, equal on all ranks, from which load_state_dict() continues. `batches`: how many batches of this
        iteration were used; give it if a DataLoader has workers, because they ask for batches in advance."""
        epoch, consumed = (self.epoch, self.consumed) if batches is None else self._begin
        for _ in range(batches or 0):
            step = self._next(consumed)
            if step is None:
                raise ValueError(f"state_dict: the iteration has fewer than {batches} batches")
            epoch, consumed = (epoch + 1, 0) if step[1] else (epoch, step[0])
        return {"dataset": self._fingerprint, "samples": self._size, "seed": self.seed, "epoch": epoch,
                "consumed": consumed, **vars(self._order_options)}

    def load_state_dict(self, state):
        """Continues from a state, with its seed and order, for any number of ranks and any batch size."""
        try:
            if (state["dataset"], state["samples"]) != (self._fingerprint, self._size):
                raise DataError(f"the state to resume from was taken with another dataset ({state['samples']} samples, "
                                f"{state['dataset']}; here {self._size}, {self._fingerprint}): give the same data")
            order = OrderOptions(**{name: state[name] for name in vars(OrderOptions())})
            epoch, consumed, seed = (int(state[name]) for name in ("epoch", "consumed", "seed"))
            good = (epoch >= 0 and 0 <= seed < 1 << 64 and 0 <= consumed <= self._size and
                    1 <= order.lanes <= 1 << 20 and
                    order.adjacent >= 1 and order.lanes % order.adjacent == 0 and
                    1 <= order.aligned <= self._size and 1 <= order.windows <= max(self._size // order.lanes, 1))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            if isinstance(error, DataError):
                raise
            raise DataError(f"the sampler's state to resume from is damaged: {error!r}") from None
        if not good:
            raise DataError("the sampler's state is damaged")
        self._order_options, self.seed = order, seed
        self._move(epoch, consumed)
