"""A dataset of shards by index."""
import bisect
import collections
import operator
import os

from .indexed import IndexedFile
from .manifest import read_manifest
from .shard import ShardFile

_MAX_OPEN_FILES = 640  # mn's default order reads from at most as many files at a time


class ShardDataset:
    """Samples by number: a map-style dataset for torch.utils.data.DataLoader, whose workers may fork or spawn.

    A sample is a dictionary of its fields: arrays, numbers, or the bytes of an encoded image; `transform` may change
    it. Blocks of several samples stay in memory up to `cache_bytes` in each process. One thread at a time may read."""

    def __init__(self, folder, transform=None, cache_bytes=128 << 20):
        self.table = read_manifest(folder)
        self._transform, self._cache_bytes = transform, cache_bytes
        self._forget()

    def _forget(self):
        self._pid = os.getpid()
        self._files = collections.OrderedDict()  # by number, the last used last
        self._blocks = collections.OrderedDict()
        self._block_bytes = 0

    def __getstate__(self):
        return {name: value for name, value in self.__dict__.items() if name not in ("_files", "_blocks")}

    def __setstate__(self, state):
        self.__dict__.update(state)
        self._forget()

    def __len__(self):
        return self.table.firsts[-1]

    @property
    def fields(self):
        """A dictionary for each field: name, kind, dtype, shape, and of classes num_classes and class_names."""
        return self.table.fields

    def __getitem__(self, index):
        number, file, sample = self._locate(index)
        sample = {field["name"]: self._value(number, file, f, sample) for f, field in enumerate(self.table.fields)}
        return sample if self._transform is None else self._transform(sample)

    def source(self, index):
        """The file that the image was made of; empty for samples that are not images with a class."""
        _, file, sample = self._locate(index)
        return file.source(sample)

    def _locate(self, index):
        index = operator.index(index)
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of a dataset of {len(self)}")
        number = bisect.bisect_right(self.table.firsts, index) - 1
        return number, self._open(number), index - self.table.firsts[number]

    def _open(self, number):
        if self._pid != os.getpid():
            self._forget()  # after a fork: HDF5's handles belong to the parent
        file = self._files.pop(number, None)
        if file is None:
            if len(self._files) == _MAX_OPEN_FILES:
                self._files.popitem(last=False)[1].close()
            file = (IndexedFile if self.table.is_index else ShardFile)(self.table, number)
        self._files[number] = file
        return file

    def _value(self, number, file, f, sample):
        block, first, last = file.block(f, sample)
        key = (number, f, block)
        data = self._blocks.pop(key, None)
        if data is None:
            data = file.load(f, block, first, last)
            self._block_bytes += _bytes_of(data)
        self._blocks[key] = data
        if last == first + 1:  # nobody else needs the block
            self._block_bytes -= _bytes_of(self._blocks.pop(key))
        while self._block_bytes > self._cache_bytes and len(self._blocks) > 1:
            self._block_bytes -= _bytes_of(self._blocks.popitem(last=False)[1])
        return file.value(f, data, first, sample)


def _bytes_of(data):
    return getattr(data, "nbytes", None) or len(data)
