"""Prints what a script that torchrun can start reads from its environment."""
import os

print(*(os.environ[name] for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR")))
