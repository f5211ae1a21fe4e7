"""Is the difference real? Plain functions over losses and deltas; no SQL and no torch.

A lower loss is better, and a delta is treatment minus control. Functions raise ValueError for input that
makes no sense; what the data cannot tell is None, with a `reason`.
"""

from .best_cells import BestCells, CellStanding, Regret, best_cells, rule_regret
from .components import VarianceComponents, variance_components
from .dunnett import DunnettDeltas, dunnett_deltas
from .families import Comparison, Family, benjamini_hochberg, benjamini_yekutieli, holm, simultaneous
from .gain import ComputeGain, compute_gain
from .homogeneity import HomogeneityCheck, check_homogeneity
from .layout import LossTable, loss_table
from .paired import PairedDelta, UnpairedDelta, paired_delta, welch_delta
from .pooled import PooledError, no_narrower, pair_error, pooled_delta, pooled_error, wide_cells
from .power import (
    outperforming_size,
    power,
    rank_test_floor,
    seeds_needed,
    selection_bias,
    smallest_difference,
)
from .quadratic import Parabola, Slope, TwoLines, parabola, two_lines
from .ranks import Friedman, SignedRank, friedman, outperforming, sign_flip, signed_rank
from .seeds import SeedPlan, plan_seeds, stein_delta, stein_estimate
from .student import Estimate, MeanEstimate, interquartile_mean, mean_estimate, sample_sd
from .tail import TailError, tail_error, window_error
from .ushape import EndContrast, Equivalence, UShape, curvature, equivalence, u_shape
from .variances import MODERATED_CELLS, ModeratedDeltas, moderated_deltas, sd_bias, sd_limits

__all__ = [
    "MODERATED_CELLS",
    "BestCells",
    "CellStanding",
    "Comparison",
    "ComputeGain",
    "DunnettDeltas",
    "EndContrast",
    "Equivalence",
    "Estimate",
    "Family",
    "Friedman",
    "HomogeneityCheck",
    "LossTable",
    "MeanEstimate",
    "ModeratedDeltas",
    "PairedDelta",
    "Parabola",
    "PooledError",
    "Regret",
    "SeedPlan",
    "SignedRank",
    "Slope",
    "TailError",
    "TwoLines",
    "UShape",
    "UnpairedDelta",
    "VarianceComponents",
    "benjamini_hochberg",
    "benjamini_yekutieli",
    "best_cells",
    "check_homogeneity",
    "compute_gain",
    "curvature",
    "dunnett_deltas",
    "equivalence",
    "friedman",
    "holm",
    "interquartile_mean",
    "loss_table",
    "mean_estimate",
    "moderated_deltas",
    "no_narrower",
    "outperforming",
    "outperforming_size",
    "pair_error",
    "paired_delta",
    "parabola",
    "plan_seeds",
    "pooled_delta",
    "pooled_error",
    "power",
    "rank_test_floor",
    "rule_regret",
    "sample_sd",
    "sd_bias",
    "sd_limits",
    "seeds_needed",
    "selection_bias",
    "sign_flip",
    "signed_rank",
    "simultaneous",
    "smallest_difference",
    "stein_delta",
    "stein_estimate",
    "tail_error",
    "two_lines",
    "u_shape",
    "variance_components",
    "welch_delta",
    "wide_cells",
    "window_error",
]
