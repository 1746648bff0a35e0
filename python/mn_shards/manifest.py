"""Reads manifest.h5: the table of a dataset's shards, or of HDF5 files that `mnshard index` listed."""
import dataclasses
import hashlib
import io
import json
import os
import struct

import h5py
import numpy as np

from .checksum import crc32c
from .order import Layout

_SHARDS, _INDEX = 2, 3  # versions of manifests


class DataError(ValueError):
    """Missing, damaged or foreign files. The text names the file and the remedy."""


@dataclasses.dataclass
class Table:
    folder: str
    is_index: bool
    fields: list  # as in the attribute `fields` of a shard, with num_classes and class_names
    files: list  # a dictionary for each file: path, num_samples, …
    layout: Layout
    fingerprint: str

    def __post_init__(self):
        self.firsts = [0, *np.cumsum([file["num_samples"] for file in self.files], dtype=np.int64).tolist()]


def row_bytes(field):
    item = 2 if field["dtype"] == "bfloat16" else np.dtype(field["dtype"]).itemsize
    return item * int(np.prod(field["shape"], dtype=np.int64))


def is_small(field, block_samples):
    """Whether a shard's header and one checksum cover the field, and opening the shard reads it."""
    return field["kind"] == "fixed" and row_bytes(field) < 1024 // block_samples


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


def _fingerprint(*content):
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()


def _shard_table(file, folder):
    fields = json.loads(file["fields"][()].tobytes())["fields"]
    block = int(file.attrs["block_samples"])
    names = [name.decode() for name in file["file"][()]]
    columns = {name: file[name][()].tolist() for name in ("num_samples", "bytes", "header_crc")}
    files = [{"path": os.path.join(folder, name), "uuid": bytes(uuid), **dict(zip(columns, numbers))}
             for name, uuid, *numbers in zip(names, file["uuid"][()], *columns.values())]
    n = sum(columns["num_samples"])
    small = [is_small(field, block) for field in fields]
    sample = sum(row_bytes(field) if own else 8 * (field["kind"] != "fixed") for field, own in zip(fields, small))
    layout = Layout(sum(columns["bytes"]), len(files), block, n * sample + n // block * 4 * small.count(False))
    uuids = [shard["uuid"].hex() for shard in files]
    return Table(folder, False, fields, files, layout, _fingerprint(fields, names, columns, uuids))


def _block_samples(array, field):
    """Samples of a block: of a chunk, or of about 64 KiB of a contiguous dataset."""
    if array["chunk"]:
        return array["chunk"][0]
    return 1 if row_bytes(field) >= 32 << 10 else max((64 << 10) // max(row_bytes(field), 1), 1)


def _index_table(file, folder):
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
    return Table(folder, True, fields, files, layout, _fingerprint(fields, content))


def read_manifest(folder):
    path = os.path.join(folder, "manifest.h5")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise DataError(f"there are no shards in {folder} (no manifest.h5): make them with mnshard, e.g. "
                        "`mnshard idx data/mnist --out DIR`") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror}") from None
    # No damaged byte reaches libhdf5: the seal of 512 bytes has the length and the checksum of the HDF5 file behind it.
    magic, version, crc, size = struct.unpack_from("<8sIIQ", data.ljust(24, b"\0"))
    if magic != b"MNMANIF\n" or version not in (_SHARDS, _INDEX):
        raise DataError(f"{path} is no manifest of a version that this package reads: make the shards again with "
                        "mnshard (a Git LFS pointer: fetch the file itself)")
    if size != len(data) or crc != crc32c(data[512:]):
        raise DataError(f"{path} is damaged (its checksum or length differs): copy it again, or make the shards again "
                        "with mnshard")
    try:
        with h5py.File(io.BytesIO(data), "r") as file:
            return (_index_table if version == _INDEX else _shard_table)(file, os.path.abspath(folder))
    except (KeyError, IndexError, ValueError, TypeError, OSError) as error:
        raise DataError(f"{path} is no manifest that this package reads ({error}): make the shards again with "
                        "mnshard") from error
