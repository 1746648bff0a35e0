"""Faults that are planted in a copy of the tree, which is built once; MN_PLANTED then chooses one."""
import contextlib
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
# mn_is_planted(3) holds where MN_PLANTED is 3. Goes before a source that has it.
CHOICE = """#ifndef MN_PLANTED
#define MN_PLANTED
#include <cstdlib>
inline bool mn_is_planted(int fault) {
  static const char* const chosen = std::getenv("MN_PLANTED");
  return chosen != nullptr && std::atoi(chosen) == fault;
}
#endif
"""


@contextlib.contextmanager
def own_or_temporary(folder):
    """The folder, which is kept; without one a new one, which is not."""
    if folder:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="planted_faults.") as name:
        yield pathlib.Path(name)


def commit_number():
    """One of many numbers, the same for each run of a commit."""
    commit = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    return int(commit[:8], 16)


def copy_tree(copy):
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True, text=True).stdout.split("\0")
    for name in filter(None, names):
        source, target = ROOT / name, copy / name
        if not source.is_file():
            continue
        if target.exists() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def planted_sources(folder, faults):
    """The text of each source below `folder` with all faults, by its name. A fault is a list of changes: source, text
    that stands in it once, what takes its place (PLANTED: where this fault is chosen)."""
    texts = {}
    for number, changes in enumerate(faults):
        for source, before, after in changes:
            text = texts.setdefault(source, CHOICE + (ROOT / folder / source).read_text())
            if text.count(before) != 1:
                sys.exit(f"{source} has this {text.count(before)} times: {before}")
            texts[source] = text.replace(before, after.replace("PLANTED", f"mn_is_planted({number})"))
    return texts


def where_libtorch_is():
    """CMake's option for it, from the build folder in use."""
    cache = pathlib.Path(os.environ.get("MN_BUILD_DIR", ROOT / "build"), "CMakeCache.txt").read_text()
    return "-D" + re.search(r"^MN_TORCH_INCLUDE:PATH=.*", cache, re.M)[0]


def build(copy, targets, options=("-DMN_TORCH=OFF",)):
    # With the flags of the tree's own build, ccache has all but the sources with faults.
    own = pathlib.Path(os.environ.get("MN_BUILD_DIR", ROOT / "build"), "CMakeCache.txt")
    cache = own.read_text() if own.is_file() else ""
    flags = [f"-D{flag}={'ON' if f'{flag}:BOOL=ON' in cache else 'OFF'}" for flag in ("MN_WERROR", "MN_ASSERTS")]
    subprocess.run(["cmake", "-S", copy, "-B", copy / "build", "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
                    *options, *flags], check=True, stdout=subprocess.DEVNULL)
    done = subprocess.run(["cmake", "--build", copy / "build", "--target", *targets], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stdout)
