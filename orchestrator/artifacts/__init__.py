"""Artifacts in a folder that all nodes share, or where they share none in a bucket or any fsspec store."""
