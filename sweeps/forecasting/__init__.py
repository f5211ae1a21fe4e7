"""What a plan will cost."""
