"""What `prove` must know of the machine: its GPUs, its Python with torch, the libraries that programs lack."""
import glob
import os
import re
import subprocess
import sys
import tarfile


def output_of(*argv, env=None):
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60, env={**os.environ, **(env or {})})
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout if done.returncode == 0 else ""


def gpu_names():
    """One for each GPU that is visible here."""
    return re.findall(r"^GPU \d+: (.*?) \(", output_of("nvidia-smi", "-L"), re.M)


# Dense bf16 flop/s by the names that nvidia-smi gives: NVIDIA's data sheets, half of what they say with sparsity.
BF16_PEAKS = {"NVIDIA H100 80GB HBM3": 989e12, "NVIDIA H200": 989e12}


def bf16_peak(gpus):
    """Of one of them; None where it is not known."""
    return BF16_PEAKS.get(gpus[0]) if gpus else None


def mfu_formula(gpus):
    """For the head of the table."""
    peak = bf16_peak(gpus)
    if peak is None:
        return "none: the peak of this GPU is not known here"
    return f"(6 N + 12 L H Q T) tokens/s / {peak / 1e12:g}e12, the assumed dense bf16 peak of {gpus[0]}"


def find_python(build):
    """One that has torch, and the folder of torch; the last one and None if none has."""
    for python in [os.environ.get("PYTHON"), os.path.join(build, "torch-env/bin/python"), "python3", sys.executable]:
        if not python:
            continue
        found = output_of(python, "-c", "import torch; print(torch.__path__[0])").strip()
        if found:
            return python, found.splitlines()[-1]
    return sys.executable, None


def known_libraries():
    return set(re.findall(r"^\s+(\S+) \(", output_of("/sbin/ldconfig", "-p"), re.M))


def unpack(archive, scratch, torch):
    """Unpacks what pack-up made: build, with the programs, and those libraries that this machine lacks. Programs then
    find them, and torch's. Returns the libraries' names."""
    known = known_libraries()
    with tarfile.open(archive) as packed:
        members = [each for each in packed if os.path.dirname(each.name) != "lib" or os.path.basename(each.name) not in known]
        packed.extractall(scratch, members)
    folder = os.path.join(scratch, "lib")
    folders = [folder]
    if torch:
        folders += [os.path.join(torch, "lib"), *sorted(glob.glob(os.path.join(torch, "../nvidia/*/lib")))]
    before = os.environ.get("LD_LIBRARY_PATH")
    os.environ["LD_LIBRARY_PATH"] = ":".join(folders + ([before] if before else []))
    return sorted(os.listdir(folder)) if os.path.isdir(folder) else []


def missing_libraries(build):
    """Sonames that the loader does not find, and the programs that want them."""
    missing = {}
    for program in sorted(glob.glob(os.path.join(build, "jobs/*")) + glob.glob(os.path.join(build, "tests/*"))
                          + glob.glob(os.path.join(build, "mn*"))):
        if os.path.isfile(program) and os.access(program, os.X_OK):
            for name in re.findall(r"^\s*(\S+) => not found", output_of("ldd", program), re.M):
                missing.setdefault(name, []).append(os.path.relpath(program, build))
    return missing


def versions(python, torch):
    """For the head of the table."""
    found = {"machine": f"{len(os.sched_getaffinity(0))} CPUs, {os.uname().sysname} {os.uname().release}"}
    smi = output_of("nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader").splitlines()
    if smi:
        found["GPUs"] = f"{len(smi)} × {smi[0]}"
    if torch:
        code = ("import torch; print(torch.__version__, 'CUDA', torch.version.cuda, 'NCCL', "
                "'.'.join(map(str, torch.cuda.nccl.version())) if torch.cuda.is_available() else 'not asked', "
                "'cuDNN', torch.backends.cudnn.version())")
        found["torch"] = output_of(python, "-c", code).strip()
    mpi = output_of("mpiexec", "--version").splitlines()
    if mpi:
        found["MPI"] = mpi[0]
    return found
