"""`python -m headcount.trainer JOB.json`: one job on a machine with PyTorch and NumPy alone."""

import sys

from headcount.trainer.errors import UserError
from headcount.trainer.single_job import main

try:
    sys.exit(main(sys.argv[1:]))
except UserError as error:
    print(f"Error: {error}", file=sys.stderr)
    sys.exit(2)
