"""converters_test.py WORK: what Python's own modules write comes back from shards. mnshard is $MNSHARD."""
import io
import os
import pathlib
import subprocess
import sys
import tarfile

import numpy

from read_shards import read_shards

work = pathlib.Path(sys.argv[1])


def convert(*arguments):
    subprocess.run([os.environ["MNSHARD"], *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)


def check_images():
    labels = dict(line.split() for line in open(work / "images.list"))
    found = {sample["key"].decode(): sample for sample in read_shards(work / "shards")}
    assert found.keys() == labels.keys() and found
    for key, sample in found.items():
        assert sample["image"] == (work / key).read_bytes() and sample["label"] == int(labels[key]), key


def check_circles():
    points = list(read_shards(work / "circles"))
    assert len(points) == 1000
    for point in points:
        assert abs(numpy.hypot(*point["x"]) - 1 - point["label"]) < 1e-6


def check_fields():
    for i, sample in enumerate(read_shards(work / "divisors")):
        assert sample["divisors"].tolist() == [d for d in range(1, i + 1) if i % d == 0], i
        assert sample["number"] == i and sample["digits"] == len(str(i)), i
    assert i == 999


def check_tar(name, form):
    images = sorted(path.read_bytes() for path in (work / "images").rglob("*.JPEG"))[:20]
    members, keys = [], []
    for i, image in enumerate(images):
        # Lengths at which a header, its prefix or a long name begins or ends; ustar has no name of more than 255 bytes.
        folder = (0, 80, 95, 98, 99, 100, 101, 150, 154, 155, 200, 254, 255, 256, 257)[i % 15]
        if form == tarfile.USTAR_FORMAT and folder > 155:
            folder = 155
        rest = "n" * (80 if form == tarfile.USTAR_FORMAT else 150) if i % 2 else ""
        keys.append(("d" * folder + "/" if folder else "") + rest + f"{i:04}")
        members += [(keys[-1] + ".jpg", image), (keys[-1] + ".cls", str(i % 5).encode()), (keys[-1] + ".json", b"{}")]
    for part in range(2):
        with tarfile.open(work / f"{name}-{part}.tar", "w", format=form) as tar:
            for member, content in members[30 * part:30 * part + 30]:
                info = tarfile.TarInfo(member)
                info.size = len(content)
                info.mtime = 1.5  # an extended header of its own, where the format has them
                tar.addfile(info, io.BytesIO(content))
    convert("tar", work / f"{name}-0.tar", work / f"{name}-1.tar", "--out", work / name, "--shard-mb", 1)
    found = [(sample["image"], sample["label"], sample["key"].decode()) for sample in read_shards(work / name)]
    assert found == [(images[i], i % 5, keys[i]) for i in range(20)], name


def check_arrays(name, samples, labels):
    def same(out):
        found = list(read_shards(out))
        assert [sample["label"] for sample in found] == labels.ravel().tolist(), out
        expected = samples.astype(samples.dtype.newbyteorder("<"))
        for sample, wanted in zip(found, expected):
            assert sample["x"].dtype == expected.dtype and numpy.array_equal(sample["x"], wanted), out

    numpy.save(work / f"{name}.npy", samples)
    numpy.save(work / f"{name}-labels.npy", labels)
    convert("npy", work / f"{name}.npy", work / f"{name}-labels.npy", "--out", work / f"{name}-npy")
    same(work / f"{name}-npy")
    for save in numpy.savez, numpy.savez_compressed:
        save(work / f"{name}-{save.__name__}.npz", images=samples, classes=labels)
        convert("npz", work / f"{name}-{save.__name__}.npz", "--x", "images", "--y", "classes",
                "--out", work / f"{name}-{save.__name__}")
        same(work / f"{name}-{save.__name__}")


check_images()
check_circles()
check_fields()
check_tar("ustar", tarfile.USTAR_FORMAT)
check_tar("gnu", tarfile.GNU_FORMAT)
check_tar("pax", tarfile.PAX_FORMAT)
values = numpy.arange(150 * 3 * 4) % 250
for number, kind in enumerate(["u1", "<i4", ">i8", "<f4", ">f8", ">u2", "<u4"]):
    for order in "CF":
        check_arrays(f"{kind[-2:]}-{order}", numpy.asarray(values.reshape(150, 3, 4), dtype=kind, order=order),
                     (numpy.arange(150) % 9).astype(["u1", ">u2", "i4", "i8", "i1", "u4", "u8"][number]).reshape(-1, 1))
