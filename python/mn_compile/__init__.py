"""Compiles models for training with mn: mn-compile makes packages (.mnc) that C++ trains without Python."""
import re


def first_line(error):
    """The first line of an error's text, without torch's details; its class if it has none."""
    line = next(iter(str(error).strip().splitlines()), type(error).__name__)
    return re.split(r" \(unhinted| \[FakeTensor", line)[0][:200].rstrip(" .")
