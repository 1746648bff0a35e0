"""pillow_test.py: random TIFFs of every kind, decoded by mn, by Pillow and by the rule that made them. The same images in
every run; MN_RANDOM_IMAGES=N takes N of them."""
import os
import pathlib
import random
import struct
import subprocess
import tempfile
import zlib

import numpy
from PIL import Image, ImageOps

GRAY, RGB, PALETTE, MASK = 1, 2, 3, 0  # photometric interpretations; MASK: gray, 0 is white
SHORT, LONG = 3, 4


def tiff(samples, bits, photometric, tile, rows, planar, order, packed, orientation, palette, random_extra):
    """A TIFF of samples [height, width, n]; tile: its two sides, or none."""
    height, width, count = samples.shape
    tag_values, blocks = {}, []

    def block_of(part):
        if bits < 8:
            levels = numpy.unpackbits(part.astype("u1")[..., None], axis=-1)[..., 8 - bits:]
            raw = numpy.packbits(levels.reshape(part.shape[0], -1), axis=-1).tobytes()
        else:
            raw = part.astype(f"{order}u{bits // 8}").tobytes()
        return zlib.compress(raw) if packed else raw

    high, wide = tile or (rows, width)
    for plane in ([samples[..., [c]] for c in range(count)] if planar else [samples]):
        for top in range(0, height, high):
            for left in range(0, width, wide):
                part = plane[top:top + high, left:left + wide]
                if tile:
                    lacks = ((0, high - part.shape[0]), (0, wide - part.shape[1]), (0, 0))
                    part = numpy.pad(part, lacks, constant_values=random_extra)
                blocks.append(block_of(part))
    at = 8
    places = []
    for block in blocks:
        places.append(at)
        at += len(block) + len(block) % 2
    tag_values[256], tag_values[257] = (LONG, [width]), (LONG, [height])
    tag_values[258], tag_values[259] = (SHORT, [bits] * count), (SHORT, [8 if packed else 1])
    tag_values[262], tag_values[277] = (SHORT, [photometric]), (SHORT, [count])
    tag_values[284] = (SHORT, [2 if planar else 1])
    if orientation:
        tag_values[274] = (orientation[0], [orientation[1]])
    color = 3 if photometric == RGB else 1
    if count > color:
        tag_values[338] = (SHORT, [0] * (count - color))
    if photometric == PALETTE:
        tag_values[320] = (SHORT, palette.T.ravel().tolist())
    if tile:
        tag_values[322], tag_values[323] = (LONG, [wide]), (LONG, [high])
        tag_values[324], tag_values[325] = (LONG, places), (LONG, [len(block) for block in blocks])
    else:
        tag_values[278] = (LONG, [rows])
        tag_values[273], tag_values[279] = (LONG, places), (LONG, [len(block) for block in blocks])
    body = b"".join(block + bytes(len(block) % 2) for block in blocks)
    directory, beyond = b"", b""
    end = at + 2 + 12 * len(tag_values) + 4
    for tag, (kind, values) in sorted(tag_values.items()):
        data = struct.pack(f"{order}{len(values)}{'H' if kind == SHORT else 'I'}", *values)
        if len(data) > 4:
            place = struct.pack(order + "I", end + len(beyond))
            beyond += data + bytes(len(data) % 2)
        else:
            place = data.ljust(4, b"\0")
        directory += struct.pack(order + "HHI", tag, kind, len(values)) + place
    begin = struct.pack(order + "2sHI", b"II" if order == "<" else b"MM", 42, at)
    return begin + body + struct.pack(order + "H", len(tag_values)) + directory + bytes(4) + beyond


def turned(pixels, orientation):
    if orientation >= 5:
        pixels = pixels.transpose(1, 0, 2)
    return {1: pixels, 2: pixels[:, ::-1], 3: pixels[::-1, ::-1], 4: pixels[::-1], 5: pixels, 6: pixels[:, ::-1],
            7: pixels[::-1, ::-1], 8: pixels[::-1]}[orientation]


def random_tiff(choose):
    photometric = choose.choice([GRAY, RGB, PALETTE, MASK])
    bits = choose.choice({RGB: [8, 16], PALETTE: [1, 2, 4, 8]}.get(photometric, [1, 2, 4, 8, 16]))
    color = 3 if photometric == RGB else 1
    count = color + (choose.choice([0, 0, 1, 2, 3]) if bits >= 8 else 0)
    width, height = choose.randrange(1, 150), choose.randrange(1, 90)
    numbers = numpy.random.default_rng(choose.randrange(1 << 30))
    samples = numbers.integers(0, 1 << bits, (height, width, count))
    palette = numbers.integers(0, 256, (1 << bits, 3)) * 257
    orientation = choose.choice([None, (SHORT, choose.randrange(1, 9)), (LONG, choose.randrange(1, 9))])
    tile = choose.choice([None, (16 * choose.randrange(1, 8), 16 * choose.randrange(1, 10))])
    planar = choose.random() < 0.3 and photometric != PALETTE
    content = tiff(samples, bits, photometric, tile, choose.randrange(1, height + 1), planar, choose.choice("<>"),
                   choose.random() < 0.4, orientation, palette, choose.randrange(1 << bits))
    if photometric == PALETTE:
        pixels = palette[samples[..., 0]] >> 8
    else:
        levels = samples[..., :color] >> 8 if bits == 16 else samples[..., :color] * 255 // ((1 << bits) - 1)
        pixels = numpy.broadcast_to(255 - levels if photometric == MASK else levels, (height, width, 3))
    facts = f"{bits} bits, photometric {photometric}, {count} samples, tile {tile}, planar {planar}, {orientation}"
    return content, turned(pixels, orientation[1] if orientation else 1), facts


def by_pillow(path):
    """None for kinds that Pillow does not read to 8 bits, or reads wrongly: a single plane, planes of 16 bits, 16 bits of
    which 0 is white, the orientation of a single tile (Pillow 13)."""
    try:
        image = Image.open(path)
        image.load()
    except (OSError, SyntaxError, ValueError):
        return None
    bits, planar, count = (image.tag_v2.get(tag, [1])[0] if tag == 258 else image.tag_v2.get(tag, 1)
                           for tag in (258, 284, 277))
    has_one_tile = image.tag_v2.get(322, 0) >= image.tag_v2[256] and image.tag_v2[323] >= image.tag_v2[257]
    if planar == 2 and (count == 1 or bits == 16) or bits == 16 and image.tag_v2[262] == MASK or has_one_tile:
        return None
    image = ImageOps.exif_transpose(image)
    if image.mode.startswith("I;16"):
        return numpy.asarray(image).astype("u2")[..., None].repeat(3, axis=2) >> 8
    return numpy.asarray(image.convert("RGB")) if image.mode in ("1", "L", "P", "RGB", "RGBX", "RGBA", "LA") else None


def main():
    count = int(os.environ.get("MN_RANDOM_IMAGES", 300))
    with tempfile.TemporaryDirectory() as work:
        paths, expected, facts = [], [], []
        for number in range(count):
            content, pixels, text = random_tiff(random.Random(number))
            paths.append(pathlib.Path(work, f"{number}.tif"))
            paths[-1].write_bytes(content)
            expected.append(pixels)
            facts.append(text)
        for start in range(0, count, 500):
            subprocess.run([os.environ["MN_BUILD_DIR"] + "/tests/decode_images", *paths[start:start + 500]], check=True)
        failures, compared = [], 0
        for path, pixels, text in zip(paths, expected, facts):
            error = pathlib.Path(f"{path}.error")
            if error.exists():
                failures.append(f"{path.stem}: {text}: {error.read_text()}")
                continue
            raw = pathlib.Path(f"{path}.rgb").read_bytes()
            width, height = struct.unpack("2i", raw[:8])
            found = numpy.frombuffer(raw[8:], "u1").reshape(height, width, 3)
            if found.shape != pixels.shape or not numpy.array_equal(found, pixels):
                failures.append(f"{path.stem}: {text}: other pixels than were written")
            theirs = by_pillow(path)
            compared += theirs is not None
            if theirs is not None and not numpy.array_equal(found, theirs):
                failures.append(f"{path.stem}: {text}: other pixels than Pillow's")
        assert compared > count // 3, compared
        assert not failures, "\n".join(failures[:20]) + f"\n{len(failures)} of {count}"
    print(f"{count} TIFFs are as they were written, {compared} of them also as Pillow reads them")


main()
