"""mpi4py, whose MPI the launcher serves."""
import os

from mpi4py import MPI

world = MPI.COMM_WORLD
assert world.rank == int(os.environ["RANK"]) and world.size == int(os.environ["WORLD_SIZE"])
assert world.allreduce(world.rank + 1) == world.size * (world.size + 1) // 2
if world.rank == 0:
    print(f"{world.size} ranks agree", flush=True)
