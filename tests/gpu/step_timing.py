"""How long a training step in Python's torch takes, for the programs whose lines `prove` reads, timed as step_timing.cpp
times mn's."""
import ctypes
import time

import torch

WARM_UP = 10
ALONE = 5


def waits_so_far():
    """(calls, seconds) that host_waits.so counted; zeros without it."""
    try:
        ask = ctypes.CDLL(None).mn_host_waits
    except AttributeError:
        return 0, 0.0
    ask.restype = ctypes.c_longlong
    seconds = ctypes.c_double()
    return ask(ctypes.byref(seconds)), seconds.value


def finish(device):
    if device.type == "cuda":
        torch.cuda.synchronize()


def measure(step, device, seconds):
    """The times and waits of calls of `step`."""
    for _ in range(WARM_UP):
        step()
    finish(device)
    host = alone = 0.0
    for _ in range(ALONE):
        begin = time.perf_counter()
        step()
        host += (time.perf_counter() - begin) / ALONE
        finish(device)
        alone += (time.perf_counter() - begin) / ALONE
    if torch.distributed.is_initialized():
        alone = torch.tensor(alone, device=device)
        torch.distributed.broadcast(alone, 0)
        alone = alone.item()
    steps = min(max(int(seconds / alone), 2), 10000)
    finish(device)
    calls_before, waited_before = waits_so_far()
    begin = time.perf_counter()
    for _ in range(steps):
        step()
    calls, waited = waits_so_far()
    finish(device)
    step_s = (time.perf_counter() - begin) / steps
    return {"step_ms": step_s * 1e3, "host_ms": host * 1e3, "waits": (calls - calls_before) / steps,
            "waited_ms": (waited - waited_before) / steps * 1e3}
