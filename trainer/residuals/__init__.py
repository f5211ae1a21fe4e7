"""Residual streams: what a sublayer reads, and where its output goes. One file each; see `interface`."""
