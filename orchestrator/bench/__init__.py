"""`headcount bench scheduler` and `packing`: what scheduling costs, and what sharing a card brings."""
