"""reader_test.py kinds|indexed|order|resumed|damaged|workers|example: mn's reader for Python gives the samples that the
C++ reader gives, in the order of the C++ sampler, for each rank; damaged and foreign files are one clear error."""
import json
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import zlib

import numpy as np

BUILD = os.environ["MN_BUILD_DIR"]
sys.path.insert(0, os.environ["MN_SOURCE_DIR"] + "/python")

from mn_shards import DataError, ShardDataset, ShardSampler, checksum, order as orders


def run(*command, text=""):
    done = subprocess.run(list(map(str, command)), input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, (command, done.stdout[-2000:], done.stderr[-2000:])
    return done.stdout


def peer(*arguments, text=""):
    return [json.loads(line) for line in run(f"{BUILD}/tests/reader_peer", *arguments, text=text).splitlines()]


def bytes_of(value, field):
    """What the C++ reader gives for the field."""
    if isinstance(value, bytes):
        return value
    if field["dtype"] == "bfloat16":
        bits = np.asarray(value).view(np.uint32)
        assert np.all(bits % 65536 == 0)
        return (bits >> 16).astype("<u2").tobytes()
    assert value.dtype == field["dtype"], (value.dtype, field)
    return value.tobytes()


def same_samples(folder):
    """Reads the samples in turn, then some of them at random without a cache."""
    dataset, expected = ShardDataset(folder), peer("read", folder)
    assert len(dataset) == len(expected) > 0
    cases = [(dataset, range(len(dataset))),
             (ShardDataset(folder, cache_bytes=1), random.Random(1).choices(range(len(dataset)), k=100))]
    for reader, numbers in cases:
        for i in numbers:
            sample = reader[i]
            parts = [bytes_of(sample[field["name"]], field) for field in dataset.fields]
            assert [[len(part), zlib.crc32(part)] for part in parts] == expected[i], (folder, i)
    return dataset


def kinds():
    assert checksum.crc32c(b"123456789") == 0xE3069283
    for size in (0, 1, 3, 4, 7, 8, 9, 100, 4092, 65537):
        data, crc = bytes(i * 7 % 256 for i in range(size)), 0xFFFFFFFF
        for byte in data:
            crc ^= byte
            for _ in range(8):
                crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        assert checksum.crc32c(data) == crc ^ 0xFFFFFFFF, size
    peer("write", ".")
    shapes, tables, shards = set(), 0, 0
    for folder in sorted(pathlib.Path().iterdir()):
        dataset = same_samples(folder)
        shapes |= {(field["kind"], field["dtype"]) for field in dataset.fields}
        blocks = dataset._open(0)._block_begins
        tables += blocks is not None and len(blocks) > 2
        shards = max(shards, len(dataset.table.files))
    assert {kind for kind, _ in shapes} == {"fixed", "encoded", "variable"} and len(shapes) >= 14, shapes
    assert tables > 0 and shards > 1, "a shard with a table of several blocks, and a dataset of several shards"
    run(f"{BUILD}/tests/write_fields", "divisors")
    divisors = same_samples("divisors")
    assert divisors[12]["divisors"].tolist() == [1, 2, 3, 4, 6, 12] and divisors[12]["digits"] == 2
    assert divisors.fields[2]["num_classes"] == 4 and len(list(divisors)) == 1000
    run(f"{BUILD}/tests/make_images", "files", "--per-class", 2, "--val-per-class", 0, "--size", "90x70")
    run(f"{BUILD}/mnshard", "images", "files/train", "--out", "images")
    images = same_samples("images")
    for i in range(len(images)):
        assert images[i]["image"] == pathlib.Path("files/train", images.source(i)).read_bytes()
    assert images.fields[1]["class_names"] == sorted(os.listdir("files/train"))


def indexed():
    import h5py
    values = np.random.default_rng(1).integers(0, 99, (70, 5, 6))
    with h5py.File("a.h5", "w", userblock_size=512) as file:
        file["other"] = values[:, 0]
        file.create_dataset("in/x", data=values.astype(">i4"), chunks=(16, 5, 4), compression="gzip", shuffle=True)
        file["y"] = np.arange(70.0)
    with h5py.File("b.h5", "w") as file:
        part = file.create_dataset("in/x", (30, 5, 6), "<i4", chunks=(7, 5, 6), fletcher32=True, compression="lzf")
        part[10:] = values[:20]  # the first chunk is not stored
        file["y"] = np.arange(70.0, 100.0)
    run(f"{BUILD}/mnshard", "index", "a.h5", "b.h5", "--field", "x=/in/x", "--field", "y=/y", "--out", "index")
    same_samples("index")
    for ranks in range(1, 8):
        found = vars(orders.default_order(100, ShardDataset("index").table.layout, True, ranks))
        assert [found] == peer("order", "index", ranks)
    os.utime("b.h5")
    fails(lambda: ShardDataset("index")[80], "b.h5 was changed after it was indexed: index it again")


class Layout:
    """Stands for a dataset: as many samples, and an order that the C++ sampler gets, too."""

    def __init__(self, size):
        self.size, self.table = size, self
        self.layout, self.fingerprint = orders.Layout(size, 0, 1), "0"

    def __len__(self):
        return self.size


def sampler_of(asked):
    sampler = ShardSampler(Layout(asked["n"]), asked["batch_size"], asked["rank"], asked["ranks"],
                           drop_last=asked["drop_last"], even_last=asked["even_last"])
    state = sampler.state_dict() | asked["order"]
    sampler.load_state_dict(json.loads(json.dumps(state | {name: asked[name] for name in ("seed", "epoch", "consumed")})))
    return sampler


def random_order(choose, n):
    lanes = choose.choice([1, 1, 3, 6, 24, 48])
    lanes = lanes if lanes <= n else 1
    adjacent = choose.choice([k for k in (1, 2, 3, 4) if lanes % k == 0])
    return {"shuffle": choose.random() < 0.9, "lanes": lanes, "adjacent": adjacent,
            "windows": choose.randint(1, max(1, min(9, n // lanes))), "mixed": choose.random() < 0.5,
            "aligned": choose.choice([1, 1, min(n, 4), min(n, 17)])}


def same_steps(cases):
    """The Python sampler's steps, from a state on, are those of the C++ sampler."""
    answers = peer("steps", text="".join(json.dumps(case) + "\n" for case in cases))
    assert len(answers) == len(cases)
    steps = 0
    for asked, answer in zip(cases, answers):
        sampler = sampler_of(asked)
        assert len(sampler) == answer["steps_per_epoch"], asked
        for epoch in answer["epochs"]:
            assert list(sampler) == epoch, asked
            steps += len(epoch)
    return steps


def order():
    choose, cases = random.Random(7), []
    for trial in range(70):
        n = choose.choice([choose.randint(7, 60), choose.randint(60, 3000)])
        case = {"n": n, "batch_size": choose.choice([1, 2, 5]) if n <= 60 else choose.choice([16, 32, 100]), "seed": choose.getrandbits(64),
                "epoch": choose.randint(0, 1000), "consumed": 0, "epochs": 2, "order": random_order(choose, n),
                "even_last": choose.random() < 0.7}
        ranks = 1 + trial % 7
        case["drop_last"] = n // ranks >= case["batch_size"] and choose.random() < 0.3
        cases += [case | {"ranks": ranks, "rank": rank} for rank in range(ranks)]
    print(same_steps(cases), "steps equal the C++ sampler's")

    layouts = []
    for _ in range(1000):
        n, block = int(10 ** choose.uniform(0, 9)), choose.choice([1, 1, 4, 64, 1000, 100000])
        files = max(1, int(min(n, 10 ** choose.uniform(0, 5))))
        layouts.append({"n": n, "ranks": choose.choice([1, 2, 3, 5, 7, 64, 1000]), "layout": {
            "bytes": int(n * 10 ** choose.uniform(0, 6)), "files": files, "block_samples": block,
            "index_bytes": n * choose.choice([0, 8, 16]), "is_packed": choose.random() < 0.4,
            "live_bytes": choose.choice([0, 0, 10 ** 5, 10 ** 8])}})
    answers = peer("steps", text="".join(json.dumps(case) + "\n" for case in layouts))
    for case, answer in zip(layouts, answers):
        found = orders.default_order(case["n"], orders.Layout(**case["layout"]), True, case["ranks"])
        assert vars(found) == answer, case
    assert len({answer["lanes"] for answer in answers}) > 10
    peer("write", ".")
    for folder in sorted(pathlib.Path().iterdir()):
        table = ShardDataset(folder).table
        for layout in (table.layout, orders.Layout(**vars(table.layout) | {"bytes": 1 << 40})):
            asked = {"n": table.firsts[-1], "ranks": 3, "layout": vars(layout)}
            found = vars(orders.default_order(table.firsts[-1], layout, True, 3))
            assert [found] == peer("steps", text=json.dumps(asked))
        assert vars(orders.OrderOptions(True)) == peer("order", folder, 3)[0]


def resumed():
    """From a state in mid-epoch, 1 to 7 ranks take what is left as the C++ ranks do, each sample once."""
    choose, cases = random.Random(8), []
    for before in range(1, 8):
        n = choose.randint(500, 1500)
        first = {"n": n, "batch_size": 16, "seed": before, "epoch": 4, "consumed": 0, "even_last": True,
                 "drop_last": False, "order": random_order(choose, n), "ranks": before, "epochs": 1}
        used = choose.randint(1, n // (16 * before) - 1)
        ranks = [sampler_of(first | {"rank": rank}) for rank in range(before)]
        iterations = [iter(sampler) for sampler in ranks]
        seen = sum((next(iteration) for iteration in iterations for _ in range(used)), [])
        state = ranks[0].state_dict()
        assert state["consumed"] == len(seen) == used * 16 * before
        for iteration in iterations:  # a DataLoader with workers asks for batches in advance
            next(iteration)
        assert all(sampler.state_dict(batches=used) == state for sampler in ranks)
        for after in range(1, 8):
            own = [first | state | {"ranks": after, "rank": rank, "batch_size": 10 + before, "epochs": 2}
                   for rank in range(after)]
            cases += own
            rest = sum((batch for asked in own for batch in sampler_of(asked)), [])
            assert sorted(seen + rest) == list(range(n)), (before, after)
    print(same_steps(cases), "steps after a resume equal the C++ sampler's")

    sampler = ShardSampler(Layout(100), 10, 0, 2, shuffle=True, seed=5)
    whole = [list(sampler) for _ in range(2)]
    assert (sampler.epoch, sampler.consumed) == (2, 0) and whole[0] != whole[1]
    sampler.set_epoch(1)
    assert list(sampler) == whole[1]
    good = sampler.state_dict()
    for bad in ({"dataset": "1"}, {"samples": 99}, {"consumed": 101}, {"epoch": -1}, {"lanes": 0}, {"epoch": "x"},
                {"lanes": 7, "adjacent": 2}, {"windows": 1 << 50}, {"aligned": 0}):
        fails(lambda: sampler.load_state_dict(good | bad), "state")
    fails(lambda: sampler.load_state_dict({"epoch": 1}), "damaged")
    fails(lambda: ShardSampler(Layout(3), 1, 0, 4), "more ranks (4) than samples (3)", ValueError)
    fails(lambda: ShardSampler(Layout(10), 6, 0, 2, drop_last=True), "use a smaller batch size", ValueError)
    fails(lambda: ShardSampler(Layout(10), 0, 0, 1), "batch size 0", ValueError)
    fails(lambda: ShardSampler(Layout(0), 1, 0, 1), "no samples", ValueError)
    fails(lambda: ShardSampler(Layout(10), 1, 2, 2), "rank 2 of 2", ValueError)


def fails(call, text, error=DataError):
    try:
        call()
    except error as found:
        assert text in str(found) and "\n" not in str(found), found
        return
    raise AssertionError(f"no error: {text}")


def damaged():
    def broken(name, change, text):
        path = pathlib.Path("data", name)
        good = path.read_bytes()
        path.write_bytes(change(good))
        fails(lambda: list(ShardDataset("data")), text)
        path.write_bytes(good)
        list(ShardDataset("data"))

    def flipped(data, at):
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1:]

    import h5py
    run(f"{BUILD}/tests/write_fields", "data")
    shard = next(pathlib.Path("data").glob("train-*.h5")).name
    with h5py.File(f"data/{shard}") as file:
        at = {name: file["data"][name].id.get_offset() for name in file["data"]} | {
            "block_begins": file["block_begins"].id.get_offset()}
    broken(shard, lambda data: flipped(data, at["divisors"] + 40), "damaged (the checksum of divisors differs): copy")
    for name in ("number", "digits", "divisors_offsets", "divisors_crc32c", "block_begins"):
        broken(shard, lambda data: flipped(data, at[name] + 2), shard)
    broken(shard, lambda data: flipped(data, 100), "the header is damaged")
    broken(shard, lambda data: data[:5000], "truncated: it has 5000 of")
    broken(shard, lambda data: b"", "truncated or not a shard")
    broken(shard, lambda data: b"GIF89a" + data[6:], "not a shard")
    broken("manifest.h5", lambda data: flipped(data, len(data) // 2), "manifest.h5 is damaged")
    broken("manifest.h5", lambda data: data[:-1], "manifest.h5 is damaged")
    broken("manifest.h5", lambda data: b"", "is no manifest")
    run(f"{BUILD}/tests/write_shards", "others")
    other = next(pathlib.Path("others").glob("train-*.h5")).read_bytes()
    broken(shard, lambda data: other, "was changed after the manifest was written")
    os.remove(f"data/{shard}")
    fails(lambda: ShardDataset("data")[0], "cannot open")
    fails(lambda: ShardDataset("absent"), "there are no shards in absent (no manifest.h5): make them with mnshard")
    fails(lambda: ShardDataset("others/manifest.h5"), "Not a directory; give the folder that mnshard made")
    sampler = ShardSampler(ShardDataset("others"), 4, 0, 1)
    for name, value in (("epoch", float("inf")), ("seed", -1), ("seed", 1 << 70), ("consumed", float("nan"))):
        fails(lambda: sampler.load_state_dict(sampler.state_dict() | {name: value}), "state")
    fails(lambda: ShardDataset("others")[1000], "sample 1000 of a dataset of 1000", IndexError)


def workers():
    """A DataLoader's processes read the same samples, whether they fork or spawn."""
    import torch
    run(f"{BUILD}/tests/write_shards", "shards")
    import h5py
    with h5py.File("a.h5", "w") as file:
        file.create_dataset("x", data=np.arange(3000).reshape(1000, 3), chunks=(64, 3), compression="gzip")
    run(f"{BUILD}/mnshard", "index", "a.h5", "--field", "x=/x", "--out", "index")
    for folder in ("shards", "index"):
        dataset = ShardDataset(folder)
        expected = torch.stack([torch.as_tensor(dataset[i]["x"]) for i in range(1000)])  # files are open before a fork
        for method, number in ((None, 0), ("fork", 2), ("spawn", 2)):
            sampler = ShardSampler(dataset, 64, 1, 3, shuffle=True, seed=1)
            loader = torch.utils.data.DataLoader(dataset, batch_sampler=sampler, num_workers=number,
                                                 multiprocessing_context=method)
            batches = list(ShardSampler(dataset, 64, 1, 3, shuffle=True, seed=1))
            for k, batch in enumerate(loader):
                assert torch.equal(batch["x"], expected[batches[k]]), (folder, method, k)
                if k == 2:
                    state = sampler.state_dict(batches=3)
            assert k + 1 == len(batches) == len(sampler)
            sampler.load_state_dict(state)
            for k, batch in enumerate(loader, 3):
                assert torch.equal(batch["x"], expected[batches[k]]), (folder, method, k)
            assert k + 1 == len(batches)


def example():
    """docs/python.md's program: a rank alone, then two ranks from a state that it saved in mid-epoch."""
    run(f"{BUILD}/tests/write_shards", "shards")
    os.environ["PYTHONPATH"] = sys.path[0]
    program = os.environ["MN_SOURCE_DIR"] + "/tests/python/train_with_shards.py"
    for rank, ranks, consumed in ((0, 1, 300), (1, 2, 300), (0, 2, 900)):  # rank 0 saves
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(ranks)}
        assert "loss 0." in run(sys.executable, program, "shards")
        state = json.loads(pathlib.Path("sampler.json").read_text())
        assert (state["epoch"], state["consumed"]) == (2, consumed), state


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        {"kinds": kinds, "indexed": indexed, "order": order, "resumed": resumed, "damaged": damaged,
         "workers": workers, "example": example}[sys.argv[1]]()
        os.chdir("/")
    print("1 passed, 0 failed")
