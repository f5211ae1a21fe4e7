"""Headcount: ablation sweeps of transformers with multi-head attention residuals."""

__version__ = "0.1.0"
