"""Compiles models for training with mn: mn-compile makes packages (.mnc) that C++ trains without Python."""
import re


def first_line(error):
    """The first line of an error's text, or its first point, without torch's details; its class if it has none."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    line = next((each.strip(" -") for each in lines if each.startswith("  - ")), lines[0])
    return re.split(r" \(unhinted| \[FakeTensor", line)[0][:200].rstrip(" .")
