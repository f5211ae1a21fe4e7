from collections.abc import Callable
from pathlib import Path

import pytest
from downstream_models import CONTEXT, TEXT
from qwen import ours_of, random_qwen
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from headcount.trainer.config import JobConfig
from headcount.trainer.data.tokenizer import load_tokenizer
from headcount.trainer.downstream.model import DownstreamModel


@pytest.fixture(scope="module")
def tokenizer_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE of 300 tokens, and its end of text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=300,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([TEXT], trainer)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture
def job(small_job: Callable[..., JobConfig], tokenizer_file: Path) -> JobConfig:
    size = load_tokenizer(str(tokenizer_file)).vocab_size
    return small_job(model__vocab_size=size, model__layers=2, data__context=CONTEXT)


@pytest.fixture
def ours(job: JobConfig, tokenizer_file: Path) -> DownstreamModel:
    return DownstreamModel(ours_of(random_qwen(job), job), load_tokenizer(str(tokenizer_file)))
