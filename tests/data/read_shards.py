"""read_shards.py DIR: what a dataset holds, read with h5py alone."""
import pathlib
import sys

import h5py


def read_shards(folder):
    """Yields (sample, label, key) in order; a sample is an array, or the bytes of an image file, which have a key."""
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
            at, key_at = data["offsets"][:], data["key_offsets"][:]
            for i, label in enumerate(labels):
                key = data["key_bytes"][key_at[i]:key_at[i + 1]].tobytes().decode()
                yield data["bytes"][at[i]:at[i + 1]].tobytes(), int(label), key


if __name__ == "__main__":
    for sample, label, key in read_shards(sys.argv[1]):
        print(key or sample.shape, label)
