"""`headcount bench training`, or `python -m headcount.trainer.bench.training`."""
