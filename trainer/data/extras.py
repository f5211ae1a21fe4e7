"""Libraries that only some jobs need, imported where they are used."""

import importlib
from types import ModuleType

from headcount.trainer.errors import UserError


def optional(module: str, purpose: str, extra: str = "data") -> ModuleType:
    """The module, or a `UserError` that says how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        raise UserError(
            f"{purpose} needs {package}, which is not installed: pip install 'headcount[{extra}]'"
        ) from error
