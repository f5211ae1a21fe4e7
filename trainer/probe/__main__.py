"""`python -m headcount.trainer.probe`: on a machine with PyTorch and NumPy alone."""

import sys

from headcount.trainer.errors import UserError
from headcount.trainer.probe.command import main

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
