"""read_shards.py DIR: what a dataset holds, read with h5py alone."""
import pathlib
import sys

import h5py


def read_shards(folder):
    """Yields (sample, label, key) in order; a sample is an array, or the bytes of a JPEG or PNG, which have a key."""
    folder = pathlib.Path(folder)
    with h5py.File(folder / "manifest.h5", "r") as manifest:
        names = [name.decode() for name in manifest["file"][:]]
    for name in names:
        with h5py.File(folder / name, "r") as shard:
            data = shard["data"]
            labels = data["label"][:]
            if "x" in data:
                for sample, label in zip(data["x"], labels):
                    yield sample, int(label), None
                continue
            ends, key_ends = data["offsets"][1:], data["key_offsets"][1:]
            begin = key_begin = 0
            for end, key_end, label in zip(ends, key_ends, labels):
                yield data["bytes"][begin:end].tobytes(), int(label), data["key_bytes"][key_begin:key_end].tobytes().decode()
                begin, key_begin = end, key_end


if __name__ == "__main__":
    for sample, label, key in read_shards(sys.argv[1]):
        print(key or sample.shape, label)
