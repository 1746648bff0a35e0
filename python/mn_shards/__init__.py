"""Reads mn's shards, and gives each rank of a training its samples in mn's order. Needs h5py and numpy only."""
from .dataset import ShardDataset
from .manifest import DataError
from .sampler import ShardSampler

__all__ = ["DataError", "ShardDataset", "ShardSampler"]
