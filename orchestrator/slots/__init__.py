"""What runs on a slot: the process that trains jobs, its sign of life and its output."""
