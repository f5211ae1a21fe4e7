"""`python -m headcount.trainer.bench`: needs PyTorch and NumPy alone."""

from headcount.trainer.bench.training import main

if __name__ == "__main__":
    main()
