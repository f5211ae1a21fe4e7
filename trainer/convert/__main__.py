"""`python -m headcount.trainer.convert`: on a machine with PyTorch, transformers and safetensors alone."""

import sys

from headcount.trainer.convert.command import main
from headcount.trainer.errors import UserError

if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except UserError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(2)
