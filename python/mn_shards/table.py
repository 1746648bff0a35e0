"""What a manifest says of a dataset, and errors."""
import dataclasses
import hashlib
import json

import numpy as np

from .order import Layout


class DataError(ValueError):
    """Missing, damaged or foreign files. The text names the file and the remedy."""


@dataclasses.dataclass
class Table:
    folder: str
    is_index: bool  # of HDF5 files that mnshard did not make
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


def fingerprint_of(*content):
    return hashlib.blake2b(json.dumps(content).encode(), digest_size=8).hexdigest()
