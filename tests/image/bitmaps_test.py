"""bitmaps_test.py: random BMPs, PPMs and PGMs of every kind, decoded by mn and by Pillow. The same images in every run;
MN_RANDOM_IMAGES=N takes N of them."""
import os
import pathlib
import random
import struct
import subprocess
import tempfile

import numpy
from PIL import Image

HEADERS = (12, 40, 108, 124)  # OS/2's, Windows' and its later versions
MASKS = {16: (0xF800, 0x7E0, 0x1F), 32: (0xFF0000, 0xFF00, 0xFF)}


def random_bmp(choose, numbers):
    header = choose.choice(HEADERS)
    bits = choose.choice((1, 4, 8, 24) if header == 12 else (1, 4, 8, 16, 24, 32))
    width, height = choose.randrange(1, 60), choose.randrange(1, 40)
    is_top_down = header > 12 and choose.random() < 0.3
    has_masks = bits in MASKS and choose.random() < 0.5
    stride = (width * bits + 31) // 32 * 4
    if bits <= 8:
        colors = 1 << bits if header == 12 or bits == 1 else choose.randrange(2, (1 << bits) + 1)
        palette = numbers.integers(0, 256, (colors, 3 if header == 12 else 4), "u1").tobytes()
        samples = numbers.integers(0, colors, (height, width), "u1")
        levels = numpy.unpackbits(samples[..., None], axis=-1)[..., 8 - bits:].reshape(height, -1)
        rows = numpy.packbits(levels, axis=-1)
    else:
        colors, palette = 0, b""
        rows = numbers.integers(0, 256, (height, width * bits // 8), "u1")
    rows = numpy.pad(rows, ((0, 0), (0, stride - rows.shape[1])))
    after = struct.pack("<3I", *MASKS[bits]) if has_masks and header == 40 else b""
    pixels_at = 14 + header + len(after) + len(palette)
    if header == 12:
        info = struct.pack("<IHHHH", 12, width, height, 1, bits)
    else:
        info = struct.pack("<IiiHHIIiiII", header, width, -height if is_top_down else height, 1, bits,
                           3 if has_masks else 0, stride * height, 2835, 2835, colors % (1 << bits) if bits <= 8 else 0, 0)
        if has_masks and header > 40:
            info += struct.pack("<4I", *MASKS[bits], 0xFF000000 if bits == 32 else 0)
        info = info.ljust(header, b"\0")
    start = struct.pack("<2sIHHI", b"BM", pixels_at + stride * height, 0, 0, pixels_at)
    return start + info + after + palette + rows.tobytes(), f"BMP, header {header}, {bits} bits, masks {has_masks}"


def random_pnm(choose, numbers):
    is_gray = choose.random() < 0.4
    levels = choose.choice((255, 255, 1, 7, 100, 254) if is_gray else (255, 255, 1, 2, 100, 256, 1000, 65534, 65535))
    width, height = choose.randrange(1, 60), choose.randrange(1, 40)
    samples = numbers.integers(0, levels + 1, (height, width, 1 if is_gray else 3))
    blank = choose.choice((" ", "\n", "\t", "\r\n", "\n# 12 a comment\n"))
    header = f"P{5 if is_gray else 6}{blank}{width}{blank}{height}{blank}{levels}\n"
    return header.encode() + samples.astype(">u2" if levels > 255 else "u1").tobytes(), repr(header)


def main():
    count = int(os.environ.get("MN_RANDOM_IMAGES", 400))
    failures = []
    with tempfile.TemporaryDirectory() as work:
        kinds = {}
        for number in range(count):
            choose, numbers = random.Random(number), numpy.random.default_rng(number)
            content, kind = (random_bmp if number % 2 else random_pnm)(choose, numbers)
            path = pathlib.Path(work, f"{number}.image")
            path.write_bytes(content)
            kinds[path] = kind
        subprocess.run([os.environ["MN_BUILD_DIR"] + "/tests/decode_images", *kinds], check=True)
        for path, kind in kinds.items():
            error = pathlib.Path(f"{path}.error")
            if error.exists():
                failures.append(f"{path.stem}: {kind}: {error.read_text()}")
                continue
            raw = pathlib.Path(f"{path}.rgb").read_bytes()
            width, height = struct.unpack("2i", raw[:8])
            found = numpy.frombuffer(raw[8:], "u1").reshape(height, width, 3)
            if not numpy.array_equal(found, numpy.asarray(Image.open(path).convert("RGB"))):
                failures.append(f"{path.stem}: {kind}: other pixels than Pillow's")
    assert not failures, "\n".join(failures[:20]) + f"\n{len(failures)} of {count}"
    print(f"{count} BMPs, PPMs and PGMs are as Pillow reads them")


main()
