"""HDF5 files as they are, which `mnshard index` listed: the table of an index, and an open file."""
import os

import h5py
import numpy as np

from .order import Layout
from .table import DataError, Table, fingerprint_of, row_bytes


def _from_cbor(data, at=0):
    """The value (RFC 8949) that begins at data[at], and where it ends."""
    kind, number = data[at] >> 5, data[at] & 31
    at += 1
    if kind == 7:
        return {20: False, 21: True, 22: None}[number], at
    if number >= 24:
        size = {24: 1, 25: 2, 26: 4, 27: 8}[number]
        number, at = int.from_bytes(data[at:at + size], "big"), at + size
    if kind <= 1:
        return (number if kind == 0 else -1 - number), at
    if kind <= 3:
        text = data[at:at + number]
        return (text if kind == 2 else text.decode()), at + number
    values = []
    for _ in range(number * (kind - 3)):  # 4: array, 5: map of keys and values in turn
        value, at = _from_cbor(data, at)
        values.append(value)
    return (values if kind == 4 else dict(zip(values[0::2], values[1::2]))), at


def _block_samples(array, field):
    """Samples of a block: of a chunk, or of about 64 KiB of a contiguous dataset."""
    if array["chunk"]:
        return array["chunk"][0]
    return 1 if row_bytes(field) >= 32 << 10 else max((64 << 10) // max(row_bytes(field), 1), 1)


def index_table(file, folder):
    data = file["index"][()].tobytes()
    if not data.startswith(b"MNINDEX2"):
        raise ValueError("it is not an index of HDF5 files")
    document = _from_cbor(data, 8)[0]
    fields, files = document["spec"]["fields"], document["files"]
    sample_bytes = sum(map(row_bytes, fields))
    block, is_packed, live_bytes = 1, False, 0
    for f, field in enumerate(fields):
        for each in files:
            each["arrays"][f]["block"] = _block_samples(each["arrays"][f], field)
        longest = max([1, *(min(each["arrays"][f]["block"], max(each["num_samples"], 1)) for each in files)])
        live_bytes += longest * row_bytes(field)
        if row_bytes(field) >= sample_bytes // 16:
            block = max(block, longest)
            is_packed = is_packed or any(each["arrays"][f]["chunk"] for each in files)
    layout = Layout(sum(each["num_samples"] for each in files) * sample_bytes, len(files), block, 0, is_packed,
                    live_bytes)
    content = [[os.path.basename(each["path"]), each["num_samples"], each["digest"]] for each in files]
    for each in files:
        each["path"] = os.path.normpath(os.path.join(folder, each["path"]))
    return Table(folder, True, fields, files, layout, fingerprint_of(fields, content))


class IndexedFile:
    """An HDF5 file as it is, read by h5py, which undoes its filters. An index has no names of HDF5 datasets: they are
    recognized by the address of their first values."""

    def __init__(self, table, number):
        self._fields, self._facts = table.fields, table.files[number]
        self.path = self._facts["path"]
        try:
            status = os.stat(self.path)
            if (status.st_size, status.st_mtime_ns) != (self._facts["bytes"], self._facts["modified_ns"]):
                raise DataError(f"{self.path} was changed after it was indexed: index it again with mnshard index")
            self._file = h5py.File(self.path, "r", locking=False)
        except OSError as error:
            raise DataError(f"cannot open {self.path}: {error.strerror or error}") from None
        found = {}
        self._file.visititems(lambda _, item: found.setdefault(_first_address(item), item) and None)
        addresses = [_address_of(array) for array in self._facts["arrays"]]
        self._datasets = [found.get(address) for address in addresses]
        for field, dataset in zip(self._fields, self._datasets):
            if dataset is None or list(dataset.shape) != [self._facts["num_samples"], *field["shape"]]:
                self.close()
                raise DataError(f"{self.path} has no values of {field['name']} at the indexed address: index it again "
                                "with mnshard index")

    def block(self, f, sample):
        size = self._facts["arrays"][f]["block"]
        number = sample // size
        return number, number * size, min((number + 1) * size, self._facts["num_samples"])

    def load(self, f, number, first, last):
        try:
            return self._datasets[f][first:last].astype(self._fields[f]["dtype"], copy=False)
        except OSError as error:
            raise DataError(f"{self.path}: samples {first} to {last - 1} of {self._fields[f]['name']} are damaged "
                            f"({error}): copy the file again") from None

    def value(self, f, block, first, sample):
        return block[sample - first].copy()

    def source(self, sample):
        return ""

    def close(self):
        self._file.close()


def _first_address(item):
    """Address, in the file, of the first values that are stored."""
    if not isinstance(item, h5py.Dataset):
        return None
    if item.chunks is None:
        return item.id.get_offset()
    return item.id.get_chunk_info(0).byte_offset if item.id.get_num_chunks() else None


def _address_of(array):
    """The same of an array of the index. A list of chunks codes each chunk by its difference from the one before
    (runtime/mn/data/chunk_list.cpp); the first stored chunk is at its address's difference from 0."""
    if not array["chunk"]:
        return array["address"]
    numbers, shift = [0], 0
    for byte in array["chunks"]:
        numbers[-1] |= (byte & 127) << shift
        shift += 7
        if byte < 128:
            if len(numbers) == 1 and numbers[0] == 3:  # not stored
                numbers, shift = [0], 0
            elif len(numbers) == 2 or numbers[0] & 3 == 0:
                return 0 if len(numbers) == 1 else numbers[1] >> 1
            else:
                numbers.append(0)
                shift = 0
    return None
