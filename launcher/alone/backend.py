"""Build backend of the pip package mnlaunch: scikit-build-core's, which this module completes in two ways. A wheel gets
its manylinux tag, and a source distribution also has the sources outside launcher/."""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

from scikit_build_core import build
from scikit_build_core.build import (  # noqa: F401, hooks that pip calls
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
    prepare_metadata_for_build_wheel,
)

SOURCES = ["CMakeLists.txt", "LICENSE", "cmake", "launcher", "runtime/mn/core"]


def build_wheel(wheel_directory, config_settings=None, metadata_directory=None):
    """auditwheel chooses the tag of the oldest glibc that has all symbols mnlaunch needs."""
    with tempfile.TemporaryDirectory() as work:
        name = build.build_wheel(work, config_settings, metadata_directory)
        subprocess.run([sys.executable, "-m", "auditwheel", "repair", "--only-plat", "--wheel-dir", f"{work}/tagged",
                        f"{work}/{name}"], check=True)
        (tagged,) = pathlib.Path(work, "tagged").iterdir()
        shutil.copy(tagged, wheel_directory)
        return tagged.name


def build_sdist(sdist_directory, config_settings=None):
    """Packs a part of the checkout. Its root has the pyproject.toml of launcher/, with paths from there."""
    checkout = pathlib.Path("..").resolve()
    target = pathlib.Path(sdist_directory).resolve()
    with tempfile.TemporaryDirectory() as work:
        for source in SOURCES:
            copy = shutil.copytree if (checkout / source).is_dir() else shutil.copy
            pathlib.Path(work, source).parent.mkdir(parents=True, exist_ok=True)
            copy(checkout / source, pathlib.Path(work, source))
        project = pathlib.Path(work, "launcher", "pyproject.toml")
        text = project.read_text().replace('"..', '".').replace('["alone"]', '["launcher/alone"]')
        project.unlink()
        pathlib.Path(work, "pyproject.toml").write_text(text)
        os.chdir(work)
        try:
            return build.build_sdist(str(target), config_settings)
        finally:
            os.chdir(checkout / "launcher")
