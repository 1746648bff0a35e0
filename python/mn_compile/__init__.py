"""Compiles models for training with mn: mn-compile makes packages (.mnc) that C++ trains without Python."""
