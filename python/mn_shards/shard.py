"""An open shard. IndexedFile has the same functions: block(), load(), value(), source() and close()."""
import os
import struct
import typing

import numpy as np

from .checksum import crc32c
from .table import DataError, is_small, row_bytes


def _as_array(data, field):
    """Bytes as an array that owns its memory. numpy has no bfloat16: float32 has all its values."""
    if field["dtype"] == "bfloat16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(data, np.dtype(field["dtype"]).newbyteorder("<")).astype(field["dtype"])


class _Column(typing.NamedTuple):
    """Where the values of a field are."""
    values: typing.Any  # position in the file; of a small field, all its bytes
    row_bytes: int
    begins: typing.Any  # first byte of each sample; None: each sample has one row
    checksums: typing.Any  # of each block; None: of a small field


class ShardFile:
    """A shard, read by pread at the positions in its user block (runtime/mn/data/shard_header.cpp): HDF5's handles
    do not survive a fork, and HDF5 is not robust against damage."""

    def __init__(self, table, number):
        self._fields, shard = table.fields, table.files[number]
        self.path = shard["path"]
        try:
            self._fd = os.open(self.path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            raise DataError(f"cannot open {self.path}: {error.strerror}") from None
        try:
            self._read_header(shard)
        except BaseException:
            self.close()
            raise

    def _read_header(self, shard):
        header = os.pread(self._fd, 4096, 0)
        if len(header) < 4096 or header[:8] != b"MNSHARD\n":
            raise DataError(f"{self.path} is truncated or not a shard (mnshard makes shards)")
        version, count, self._n, _, self._block_samples, uuid, spec_bytes, self._has_images = struct.unpack_from(
            "<IIQQQ16sII", header, 8)
        crc = crc32c(header[:4092])
        if crc != struct.unpack_from("<I", header, 4092)[0]:
            raise DataError(f"{self.path}: the header is damaged (its checksum differs): copy the shard again or "
                            "recreate it")
        if version != 4:
            raise DataError(f"{self.path} has version {version} of the shard format, this package reads 4: make the "
                            "shards again with this version's mnshard")
        if (crc, uuid, self._n, count) != (shard["header_crc"], shard["uuid"], shard["num_samples"], len(self._fields)):
            raise DataError(f"{self.path} was changed after the manifest was written: copy the shard and its manifest "
                            "from the same folder, or make them again with mnshard")
        size = os.fstat(self._fd).st_size
        if size < shard["bytes"]:
            raise DataError(f"{self.path} is truncated: it has {size} of {shard['bytes']} bytes; copy it again or "
                            "recreate it with mnshard")
        extents = [struct.unpack_from("<QQI", header, at) for at in range(64, 88 + 72 * count + 72, 24)]
        self._block_begins = self._numbers(extents[0], np.uint64, "block_begins") if extents[0][1] else None
        self._images = extents[1 + 3 * count:]
        self._columns = [self._column(field, *extents[1 + 3 * f:4 + 3 * f]) for f, field in enumerate(self._fields)]

    def _column(self, field, values, offsets, checksums):
        name, row = field["name"], row_bytes(field)
        begins = None if field["kind"] == "fixed" else self._numbers(offsets, np.uint64, "offsets of " + name) * row
        if is_small(field, self._block_samples):
            return _Column(self._part(values, "field " + name), row, begins, None)
        return _Column(values[0], row, begins, self._numbers(checksums, np.uint32, "checksums of " + name))

    def _part(self, extent, name):
        data = self._read(*extent[:2])
        if crc32c(data) != extent[2]:
            raise DataError(f"{self.path}: damaged {name} (a checksum differs): copy the shard again or recreate it "
                            "with mnshard")
        return data

    def _numbers(self, extent, dtype, name):
        return np.frombuffer(self._part(extent, name), np.dtype(dtype).newbyteorder("<")).astype(np.int64)

    def _read(self, offset, size):
        parts, left = [], size
        try:
            while left > 0:  # Linux reads at most 2 GiB at once
                parts.append(os.pread(self._fd, left, offset + size - left))
                left -= len(parts[-1])
                if not parts[-1]:
                    raise DataError(f"{self.path} is truncated: copy it again or recreate it with mnshard")
        except OSError as error:
            raise DataError(f"cannot read {self.path}: {error.strerror}") from None
        return parts[0] if len(parts) == 1 else b"".join(parts)

    def block(self, f, sample):
        """Number, first sample and end of the block that holds the sample."""
        begins = self._block_begins
        if self._columns[f].checksums is None:
            return 0, 0, self._n
        if begins is None:
            number = sample // self._block_samples
            return number, number * self._block_samples, min((number + 1) * self._block_samples, self._n)
        number = int(np.searchsorted(begins, sample, "right")) - 1
        return number, int(begins[number]), int(begins[number + 1])

    def _range(self, f, first, last):
        column = self._columns[f]
        if column.begins is None:
            return first * column.row_bytes, last * column.row_bytes
        return int(column.begins[first]), int(column.begins[last])

    def load(self, f, number, first, last):
        """The bytes of a block, whose samples are [first, last)."""
        column = self._columns[f]
        if column.checksums is None:
            return column.values
        begin, end = self._range(f, first, last)
        data = self._read(column.values + begin, end - begin)
        if crc32c(data) != column.checksums[number]:
            source = self.source(first) if last == first + 1 else ""
            samples = f"sample {first}" if last == first + 1 else f"samples {first} to {last - 1}"
            samples += f" (from {source})" if source else ""
            raise DataError(f"{self.path}: {samples}: damaged (the checksum of {self._fields[f]['name']} differs): copy "
                            "the shard again or recreate it")
        return data

    def value(self, f, block, first, sample):
        field, base = self._fields[f], self._range(f, first, first)[0]
        begin, end = self._range(f, sample, sample + 1)
        data = block[begin - base:end - base]
        if field["kind"] == "encoded":
            return data
        array = _as_array(data, field)
        return array.reshape(field["shape"])[()] if field["kind"] == "fixed" else array.reshape(-1, *field["shape"])

    def source(self, sample):
        """The file that the image was made of; empty for other samples."""
        if not self._has_images:
            return ""
        begins = self._numbers(self._images[2], np.uint64, "key_offsets")
        keys = self._part(self._images[1], "key_bytes")
        return keys[begins[sample]:begins[sample + 1]].decode(errors="replace")

    def close(self):
        os.close(self._fd)
