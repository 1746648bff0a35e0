"""Reads manifest.h5: the table of a dataset's shards, or of HDF5 files that `mnshard index` listed."""
import io
import json
import os
import struct

import h5py

from .checksum import crc32c
from .indexed import index_table
from .order import Layout
from .table import DataError, Table, fingerprint_of, is_small, row_bytes

_SHARDS, _INDEX = 2, 3  # versions of manifests


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
    return Table(folder, False, fields, files, layout, fingerprint_of(fields, names, columns, uuids))


def read_manifest(folder):
    path = os.path.join(folder, "manifest.h5")
    try:
        with open(path, "rb") as file:
            data = file.read()
    except FileNotFoundError:
        raise DataError(f"there are no shards in {folder} (no manifest.h5): make them with mnshard, e.g. "
                        "`mnshard idx data/mnist --out DIR`") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}; give the folder that mnshard made") from None
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
            return (index_table if version == _INDEX else _shard_table)(file, os.path.abspath(folder))
    except (KeyError, IndexError, ValueError, TypeError, OSError) as error:
        raise DataError(f"{path} is no manifest that this package reads ({error}): make the shards again with "
                        "mnshard") from error
