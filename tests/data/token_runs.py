"""What the tests of `mnshard tokens` share."""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

SOURCE, BUILD = os.environ["MN_SOURCE_DIR"], os.environ["MN_BUILD_DIR"]
MNSHARD = f"{BUILD}/mnshard"
CONTEXT = 64
DOCUMENTS = [f"Document {i}: " + "it's a café, 世界!\n" * (i % 9) + "é" * (i % 4) for i in range(45)]
END = 256  # the end-of-text token of a vocabulary of bytes


def check(what, holds, shown=""):
    if not holds:
        sys.exit(f"FAILED: {what}\n{shown}")


def run(*arguments, ranks=0, wanted=0):
    start = [f"{SOURCE}/tests/support/mpiexec", str(ranks)] if ranks else []
    done = subprocess.run([*start, MNSHARD, *map(str, arguments)], capture_output=True, timeout=100, check=False)
    check(f"{arguments} on {ranks} ranks: status {done.returncode}", done.returncode == wanted, done.stdout + done.stderr)
    return done


def convert(out, *arguments, context=CONTEXT, **how):
    run("tokens", *arguments, "--context", context, "--out", out, **how)
    return out


def column(folder, field="tokens", width=2, signed=False):
    """The values of a field of all samples."""
    info = run("info", folder).stdout.decode()
    rows = []
    for i in range(int(info.split(": ")[1].split()[0])):
        raw = run("extract", folder, i, "--field", field).stdout
        rows.append([int.from_bytes(raw[k:k + width], "little", signed=signed) for k in range(0, len(raw), width)])
        check(f"the length of a sample of {field}", len(rows[-1]) == len(rows[0]) > CONTEXT, rows[-1])
    check("verified", b"all good" in run("verify", folder).stdout)
    return rows


def documents(folder):
    """The documents in a split of bytes; the last one may be cut off."""
    rows = column(folder)
    stream = [token for row in rows for token in row[:-1]]
    return bytes(token if token < END else 0 for token in stream).decode(errors="replace").split("\0")


def lines(texts, field="text"):
    return "".join(json.dumps({"id": i, field: text}, ensure_ascii=i % 2 == 0) + "\n" for i, text in enumerate(texts)).encode()


def samples(out):
    return [column(f"{out}/{part}") for part in ("train", "val")]


def samples_of_files(out):
    """The bytes of all shards."""
    return {str(path.relative_to(out)): path.read_bytes() for path in pathlib.Path(out).rglob("[!.]*") if path.suffix == ".h5"}


def run_case(cases):
    """Runs the case that the command line names, in a folder of its own."""
    with tempfile.TemporaryDirectory() as work:
        os.chdir(work)
        cases[sys.argv[1]]()
    print("1 passed, 0 failed")
