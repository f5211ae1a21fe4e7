"""The scheduler: decisions over plain data, and the loop that makes the cluster do what the store wants."""
