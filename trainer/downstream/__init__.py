"""Downstream tasks: a trained model under EleutherAI's lm-eval, which only this package's modules import."""
