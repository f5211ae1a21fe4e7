"""Depth routing: the operation of multi-head attention residuals."""
