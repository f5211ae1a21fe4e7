"""The probe: what the heads of a trained model read of its depth, and whether slices of the width agree."""

from headcount.trainer.probe.figures import Figures as Figures
from headcount.trainer.probe.figures import Settings as Settings
from headcount.trainer.probe.running import probe as probe
