"""The text a job trains on: found, split, written as tokens, read back in order. Imports without torch."""

from headcount.trainer.data.dataset import Dataset, open_dataset
from headcount.trainer.data.manifest import Manifest
from headcount.trainer.data.preparation import prepare

__all__ = ["Dataset", "Manifest", "open_dataset", "prepare"]
