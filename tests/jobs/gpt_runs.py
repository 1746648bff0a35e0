"""Runs of jobs/gpt with a small network on a small text, for the tests of this folder."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE, BUILD = os.environ["MN_SOURCE_DIR"], os.environ["MN_BUILD_DIR"]
CONTEXT = 16
TEXT = "".join(f"{i % 7} blue birds sing{'!' * (i % 3)} on a {['tree', 'roof', 'hill'][i % 3]}\n" for i in range(300))
FORM = ["--layers", "2", "--heads", "2", "--width", "16"]
SMALL = ["--device", "cpu", "--train", "data/train", "--val", "data/val", "--report-every", "20", "--iterations", "40", "--warmup-iterations", "5", "--deterministic"]


def run(*command, wanted=0):
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, errors="replace", timeout=620, check=False)
    check(f"{command}: status {done.returncode}", done.returncode == wanted, done.stdout + done.stderr)
    return done.stdout + done.stderr


def gpt(ranks, *options, **how):
    return run(f"{SOURCE}/tests/support/mpiexec", ranks, f"{BUILD}/jobs/gpt", *SMALL, *FORM, *options, **how)


def gpt_of_file(ranks, *options, **how):
    """What the file of the weights says of the network is not said again."""
    return run(f"{SOURCE}/tests/support/mpiexec", ranks, f"{BUILD}/jobs/gpt", "--device", "cpu", *options, **how)


def check(what, holds, shown=""):
    if not holds:
        sys.exit(f"FAILED: {what}\n{shown}")


def log(out):
    return json.loads(pathlib.Path(out, "log").read_text())


def weights(out):
    return pathlib.Path(out, "model.safetensors").read_bytes()


def near(first, second, tolerance):
    return all(abs(a[key] - b[key]) < tolerance for a, b in zip(first, second, strict=True)
               for key in ("main/loss", "validation/main/loss", "validation/main/bits_per_byte"))


def main(cases):
    """Calls the case that the command line names, in a folder with the data."""
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        pathlib.Path("text.txt").write_text(TEXT, encoding="utf-8")
        os.environ["MN_DATA"] = f"{BUILD}/data"
        mnshard = [f"{BUILD}/mnshard", "tokens", "text.txt", "--out"]
        run(*mnshard, "data", "--context", CONTEXT, "--vocabulary", "characters")
        run(*mnshard, "longer", "--context", 2 * CONTEXT, "--vocabulary", "characters")
        pathlib.Path("second.txt").write_text(TEXT[::-1], encoding="utf-8")
        run(*mnshard[:3], "second.txt", "--out", "ends", "--context", CONTEXT, "--vocabulary-size", 300)
        run(*mnshard, "bytes", "--context", CONTEXT, "--vocabulary", "bytes")
        {case.__name__: case for case in cases}[sys.argv[1]]()
    print("1 passed, 0 failed")
