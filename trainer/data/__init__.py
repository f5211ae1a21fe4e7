"""The text a job trains on: found, split, written as tokens, read back in order. Imports without torch."""

from headcount.trainer.data.dataset import Dataset, Manifest, open_dataset
from headcount.trainer.data.preparation import prepare

__all__ = ["Dataset", "Manifest", "open_dataset", "prepare"]
