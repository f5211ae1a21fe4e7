"""The libraries that conversion alone needs, imported where they are used."""

from types import ModuleType

from headcount.trainer.data import extras


def optional(module: str) -> ModuleType:
    """The module, or a `UserError` that says how to install it."""
    return extras.optional(module, "conversion", "convert")
