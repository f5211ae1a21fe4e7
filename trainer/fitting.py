"""Whether a job can be trained on a data set."""

from headcount.trainer.config import JobConfig
from headcount.trainer.data import Manifest
from headcount.trainer.errors import UserError
from headcount.trainer.scales import NOT_TRAINED


def check_fit(config: JobConfig, manifest: Manifest) -> None:
    """Raises `UserError` for tokens beyond the vocabulary, too few of them, or a scale not trained."""
    if config.model.scale in NOT_TRAINED:
        raise UserError(
            f"model.scale: {config.model.scale} is for planning and conversion; "
            "one GPU does not hold its training"
        )
    if manifest.vocab_size > config.model.vocab_size:
        raise UserError(
            f"model.vocab_size: {config.model.vocab_size} is less than the {manifest.vocab_size} tokens "
            f"of the data set {manifest.name}"
        )
    context = config.data.context
    for side, tokens in (("train", manifest.train_tokens), ("validation", manifest.validation_tokens)):
        if tokens <= context:
            raise UserError(
                f"data.context: a window of {context} needs {context + 1} tokens, and the data set "
                f"{manifest.name} has {tokens} {side} tokens"
            )
