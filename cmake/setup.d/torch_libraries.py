"""Prints, for pip, the wheels whose libraries libtorch_cpu.so loads beside torch's own: the CUDA runtime and CUPTI, in
the versions that the installed torch requires."""
import importlib.metadata
import re

for requirement in importlib.metadata.requires("torch") or []:
    wanted = requirement.split(";")[0].replace(" ", "")
    if re.match(r"nvidia-cuda-(runtime|cupti)\b", wanted):
        print(wanted)
    elif wanted.startswith("cuda-toolkit["):  # since torch 2.11
        print("cuda-toolkit[cudart,cupti]" + wanted.split("]")[1])
