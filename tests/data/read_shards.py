"""read_shards.py DIR: what a dataset holds, read with h5py alone."""
import json
import pathlib
import sys

import h5py


def columns_of(shard):
    """By field: the values, where each sample's begin (None: one each), and whether they are a file's bytes."""
    data = shard["data"]
    columns = {field["name"]: (data[field["name"]], data.get(field["name"] + "_offsets"), field["kind"] == "encoded")
               for field in json.loads(shard.attrs["fields"])}
    if "key_bytes" in data:  # where an image came from
        columns["key"] = (data["key_bytes"], data["key_offsets"], True)
    return columns


def read_shards(folder):
    """Yields the samples in order, each a dictionary of its fields: arrays, numbers, or the bytes of an image file."""
    folder = pathlib.Path(folder)
    with h5py.File(folder / "manifest.h5", "r") as manifest:
        names = [name.decode() for name in manifest["file"][:]]
    for name in names:
        with h5py.File(folder / name, "r") as shard:
            columns = {field: (values, None if begins is None else begins[:], is_file)
                       for field, (values, begins, is_file) in columns_of(shard).items()}
            for i in range(shard.attrs["num_samples"]):
                sample = {}
                for field, (values, begins, is_file) in columns.items():
                    own = values[i] if begins is None else values[begins[i]:begins[i + 1]]
                    sample[field] = own.tobytes() if is_file else own
                yield sample


if __name__ == "__main__":
    for sample in read_shards(sys.argv[1]):
        print({field: value if isinstance(value, bytes) else value.shape for field, value in sample.items()})
