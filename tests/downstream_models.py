"""The same weights as a model of ours and as one of transformers, and what lm-eval finds of either."""

from pathlib import Path
from typing import Any

from qwen import random_qwen

from headcount.trainer.config import JobConfig
from headcount.trainer.downstream.running import Downstream

TEXT = "The depth of a network is read by many heads, and each head reads its own slice of the width. "
CONTEXT = 64


def theirs_of(job: JobConfig, tokenizer_file: Path) -> Any:
    from lm_eval.models.huggingface import HFLM
    from transformers import PreTrainedTokenizerFast

    words = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file), eos_token="<|endoftext|>")
    return HFLM(pretrained=random_qwen(job), tokenizer=words, max_length=CONTEXT, batch_size=1, device="cpu")


def by_name(outcome: Downstream) -> dict[tuple[str, str], tuple[float, float | None]]:
    return {(figure.task, figure.metric): (figure.value, figure.stderr) for figure in outcome.figures}
