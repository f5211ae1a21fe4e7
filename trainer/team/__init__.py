"""Several processes for one job, one a GPU."""
