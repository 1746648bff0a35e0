"""Reads mn's shards, and gives each rank of a training its samples in mn's order. Needs h5py and numpy only."""
from .dataset import ShardDataset
from .sampler import ShardSampler
from .table import DataError

__all__ = ["DataError", "ShardDataset", "ShardSampler"]
