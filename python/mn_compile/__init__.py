"""Compiles models for training with mn: mn-compile makes packages (.mnc) that C++ trains without Python."""


def first_line(error):
    """The first line of an error's text; its class if it has none."""
    return next(iter(str(error).strip().splitlines()), type(error).__name__)
