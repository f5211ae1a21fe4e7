"""From a sweep to its cells, their controls and their jobs."""
