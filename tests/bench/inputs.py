"""What the benchmarks in Python share: modules and programs that may be absent, and images."""
import contextlib
import importlib
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ.get("MN_BUILD_DIR", pathlib.Path(__file__).resolve().parents[2] / "build"))


def require(*modules):
    """Ends the program with the remedy if one of them cannot be imported."""
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError as error:
            print(f"{sys.executable}: {error}: cmake/setup --python", file=sys.stderr)
            sys.exit(77)


def built(path):
    """What the build makes, named relative to its folder."""
    if not (BUILD / path).exists():
        print(f"{BUILD / path} is not built: cmake/setup --tests", file=sys.stderr)
        sys.exit(77)
    return BUILD / path


@contextlib.contextmanager
def images(arguments):
    """A folder of JPEGs: the first argument, or else 300 generated ones as large as photos."""
    if arguments:
        yield pathlib.Path(arguments[0])
        return
    with tempfile.TemporaryDirectory() as work:
        subprocess.run([built("tests/make_images"), work, "--classes=1", "--per-class=300", "--val-per-class=0",
                        "--size=500x375,375x500"], check=True)
        yield pathlib.Path(work, "train", "c0000")


@contextlib.contextmanager
def shards(folder):
    """The same JPEGs as shards, with labels 0 to 9."""
    with tempfile.TemporaryDirectory() as work:
        listing = pathlib.Path(work, "list")
        listing.write_text("".join(f"{path.resolve()} {i % 10}\n" for i, path in enumerate(sorted(folder.iterdir()))))
        out = pathlib.Path(work, "shards")
        subprocess.run([built("mnshard"), "images", listing, "--out", out], check=True, capture_output=True)
        yield out
