"""converters_test.py WORK: what Python's own modules write comes back from shards. mnshard is $MNSHARD."""
import csv
import gzip
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile

import numpy
from PIL import Image

from read_shards import read_shards

work = pathlib.Path(sys.argv[1])


def convert(*arguments):
    """Returns the warnings."""
    done = subprocess.run([os.environ["MNSHARD"], *map(str, arguments)], check=True, stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True)
    return done.stderr


def images():
    return sorted(path.read_bytes() for path in (work / "images").rglob("*.JPEG"))[:20]


def labels_and_keys(out):
    return [(sample["label"], sample["key"].decode()) for sample in read_shards(out)]


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
    members, keys = [], []
    for i, image in enumerate(images()):
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
    assert found == [(image, i % 5, keys[i]) for i, image in enumerate(images())], name


def check_members():
    """Labels in JSON, images by name, tar files of gzip and zstd."""
    packed = {}
    for part in range(2):
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w") as tar:
            for i, image in enumerate(images()[10 * part:10 * part + 10]):
                facts = {"text": "é \"x\"", "target": {"class": i % 5 if part else str(i % 5), "box": [1.5]}}
                for name, content in ((f"{i}.Left.jpg", image), (f"{i}.right.jpg", b"another"), (f"{i}.cls", b"no label"),
                                      (f"{i}.json", json.dumps(facts).encode())):
                    info = tarfile.TarInfo(f"{part}/{name}")
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
        packed[part] = raw.getvalue()
    half = len(packed[0]) // 2  # two members of gzip, one after the other
    (work / "packed").mkdir()
    (work / "packed/0.tar.gz").write_bytes(gzip.compress(packed[0][:half], 1) + gzip.compress(packed[0][half:], 1))
    (work / "packed/1.tar").write_bytes(packed[1])
    if subprocess.run(["zstd", "-q", "--rm", work / "packed/1.tar"], check=False).returncode != 0:
        print("no zstd: its tar file is tested unpacked", file=sys.stderr)
    options = ("--image-member", "left.jpg", "--label-member", "json:target.class", "--shard-mb", 1)
    convert("tar", work / "packed", "--out", work / "members", *options)
    found = [(sample["image"], sample["label"], sample["key"].decode()) for sample in read_shards(work / "members")]
    assert found == [(image, i % 10 % 5, f"{i // 10}/{i % 10}") for i, image in enumerate(images())]
    assert not list((work / "members").glob(".conversion*")), "the unpacked files are gone"


def check_csv():
    """CSVs as Python's csv module writes them."""
    folder = work / "csv"
    folder.mkdir()
    names = ["plain.jpg", "a, b.jpg", 'a "quoted".jpg', "two\nlines.jpg", " blank.jpg", "semi;colon.jpg", "é.jpg"]
    for name in names:
        (folder / name).write_bytes(images()[0])
    classes = ["cat", "dog, small", "ship"]
    (folder / "classes").write_text("\n".join(classes) + "\n")
    for number, (dialect, separator, header, mark) in enumerate((
            (csv.excel, ",", True, ""), (csv.unix_dialect, ",", False, ""), (csv.excel, ";", True, "\ufeff"),
            (csv.excel_tab, "\t", False, ""))):
        list_file = folder / f"{number}.csv"
        for named in (False, True):
            rows = [[name, classes[i % 3] if named else i % 3] for i, name in enumerate(names)]
            with open(list_file, "w", newline="", encoding="utf-8") as file:
                file.write(mark)
                csv.writer(file, dialect, delimiter=separator).writerows([["Path", "ClassId"]] * header + rows)
            convert("images", list_file, "--out", folder / f"{number}-{named}", "--classes", folder / "classes", "--shuffle", "off")
            assert labels_and_keys(folder / f"{number}-{named}") == [(i % 3, name) for i, name in enumerate(names)], number
    with open(folder / "many.csv", "w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, ["Width", "ClassId", "Roi.X1", "Path"])
        table.writeheader()
        table.writerows({"Width": 9, "ClassId": i % 3, "Roi.X1": "a,b", "Path": name} for i, name in enumerate(names))
    convert("images", folder / "many.csv", "--columns", "Path,ClassId", "--out", folder / "many", "--shuffle", "off")
    assert labels_and_keys(folder / "many") == [(i % 3, name) for i, name in enumerate(names)]


def check_large():
    """An image of more than 134 million pixels, and values of 16 bits."""
    folder = work / "large"
    folder.mkdir()
    ramp = Image.linear_gradient("L").resize((16400, 8200), Image.Resampling.BOX)
    ramp.save(folder / "ramp.jpg", quality=50)
    numbers = numpy.arange(64 * 48, dtype="u2").reshape(48, 64) * 21
    Image.fromarray(numbers).save(folder / "deep.png")
    (folder / "list").write_text("ramp.jpg 0\ndeep.png 1\n")
    assert "images of 16 bits a value: 1, the first deep.png; training gets their high 8 bits" in \
        convert("images", folder / "list", "--resize", 100, "--out", folder / "small", "--shuffle", "off")
    first, second = list(read_shards(folder / "small"))
    small = Image.open(io.BytesIO(first["image"]))
    assert small.size == (200, 100) and second["image"] == (folder / "deep.png").read_bytes()
    rows = numpy.asarray(small.convert("L"), dtype=float).mean(axis=1)
    assert abs(rows - numpy.asarray(ramp.resize((1, 100), Image.Resampling.BOX), dtype=float)[:, 0]).max() < 2, rows
    refused = subprocess.run([os.environ["MNSHARD"], "images", folder / "list", "--out", folder / "whole"], check=False,
                             capture_output=True, text=True)
    assert refused.returncode == 1 and "ramp.jpg: an image of 16400 × 8200 pixels; at most 134217728 are stored: " \
        "--resize N makes larger images smaller" in refused.stderr, refused.stderr


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
check_members()
check_csv()
check_large()
values = numpy.arange(150 * 3 * 4) % 250
for number, kind in enumerate(["u1", "<i4", ">i8", "<f4", ">f8", ">u2", "<u4"]):
    for order in "CF":
        check_arrays(f"{kind[-2:]}-{order}", numpy.asarray(values.reshape(150, 3, 4), dtype=kind, order=order),
                     (numpy.arange(150) % 9).astype(["u1", ">u2", "i4", "i8", "i1", "u4", "u8"][number]).reshape(-1, 1))
