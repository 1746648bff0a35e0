"""Safetensors files of torch tensors, read and written by hand, so that tests need nothing but torch."""
import ctypes
import json
import struct

import torch

DTYPES = {"F64": torch.float64, "F32": torch.float32, "I32": torch.int32, "I64": torch.int64, "U8": torch.uint8, "BOOL": torch.bool}


def save(path, tensors):
    header, data = {}, bytearray()
    for name, tensor in tensors.items():
        dense = tensor.detach().contiguous()
        raw = ctypes.string_at(dense.data_ptr(), dense.nbytes)
        kind = next(k for k, v in DTYPES.items() if v == tensor.dtype)
        header[name] = {"dtype": kind, "shape": list(tensor.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def load(path):
    with open(path, "rb") as file:
        size, = struct.unpack("<Q", file.read(8))
        header = json.loads(file.read(size))
        data = bytearray(file.read())
    tensors = {}
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        begin, end = entry["data_offsets"]
        dtype = DTYPES[entry["dtype"]]
        if begin == end:
            tensors[name] = torch.empty(entry["shape"], dtype=dtype)
        else:
            tensors[name] = torch.frombuffer(data[begin:end], dtype=dtype).reshape(entry["shape"]).clone()
    return tensors
