"""Our additive model and a Qwen3 of transformers with the same weights, which lm-eval runs by itself."""

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import lm_eval.tasks
import pyarrow
import pytest
import torch
from pyarrow import parquet
from qwen import ours_of, random_qwen
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from headcount.trainer.config import JobConfig
from headcount.trainer.data.tokenizer import load_tokenizer
from headcount.trainer.downstream.model import DownstreamModel
from headcount.trainer.downstream.running import Downstream, check_known, run_tasks
from headcount.trainer.errors import Stopped, UserError

pytestmark = pytest.mark.filterwarnings("ignore")  # lm-eval's and its libraries' own

TEXT = "The depth of a network is read by many heads, and each head reads its own slice of the width. "
CONTEXT = 64

TASKS = {
    "last_word": {
        "output_type": "loglikelihood",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": " {{answer}}",
        "metric_list": [{"metric": "perplexity"}, {"metric": "acc"}],
    },
    "whole_text": {
        "output_type": "loglikelihood_rolling",
        "doc_to_text": "",
        "doc_to_target": "{{prompt}}",
        "metric_list": [{"metric": "word_perplexity"}, {"metric": "bits_per_byte"}],
    },
    "choice": {
        "output_type": "multiple_choice",
        "doc_to_text": "{{prompt}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{label}}",
        "metric_list": [{"metric": "acc"}, {"metric": "acc_norm"}],
    },
    "continuation": {
        "output_type": "generate_until",
        "doc_to_text": "{{prompt}}",
        "doc_to_target": "{{answer}}",
        "generation_kwargs": {"until": ["e"], "max_gen_toks": 12},
        "metric_list": [{"metric": "exact_match"}],
    },
}


def write_tasks(folder: Path, names: list[str]) -> Path:
    """The tasks over items of several lengths, two of them longer than the context."""
    words = TEXT.split()
    items = [
        {
            "prompt": " ".join((words * 4)[: 3 + 9 * n]),
            "answer": words[n],
            "choices": [words[n], words[-n - 1], "none"],
            "label": n % 3,
        }
        for n in range(8)
    ]
    data = folder / "items.jsonl"
    data.write_text("".join(json.dumps(item) + "\n" for item in items))
    for name in names:
        task = {
            "task": name,
            "dataset_path": "json",
            "dataset_kwargs": {"data_files": {"test": str(data)}, "cache_dir": str(folder / "cache")},
            "test_split": "test",
            **TASKS[name],
        }
        (folder / f"{name}.yaml").write_text(json.dumps(task))
    return folder


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


def theirs_of(job: JobConfig, tokenizer_file: Path):
    from lm_eval.models.huggingface import HFLM
    from transformers import PreTrainedTokenizerFast

    words = PreTrainedTokenizerFast(tokenizer_file=str(tokenizer_file), eos_token="<|endoftext|>")
    return HFLM(pretrained=random_qwen(job), tokenizer=words, max_length=CONTEXT, batch_size=1, device="cpu")


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")


def by_name(outcome: Downstream) -> dict[tuple[str, str], tuple[float, float | None]]:
    return {(figure.task, figure.metric): (figure.value, figure.stderr) for figure in outcome.figures}


def test_every_type_of_task_gives_what_lm_eval_gives_for_the_model_of_transformers(
    ours: DownstreamModel, job: JobConfig, tokenizer_file: Path, tmp_path: Path
) -> None:
    include = write_tasks(tmp_path, list(TASKS))
    mine = run_tasks(ours, list(TASKS), include=include)
    theirs = run_tasks(theirs_of(job, tokenizer_file), list(TASKS), include=include)
    figures, expected = by_name(mine), by_name(theirs)
    assert figures.keys() == expected.keys()
    assert {task for task, _ in figures} == TASKS.keys()
    for name, (value, stderr) in expected.items():
        assert figures[name][0] == pytest.approx(value, rel=1e-6), name
        assert figures[name][1] == (stderr if stderr is None else pytest.approx(stderr, rel=1e-6)), name
    for task, metrics in theirs.items.items():
        for metric, scores in metrics.items():
            assert list(scores) == list(range(8))
            assert mine.items[task][metric] == pytest.approx(scores, rel=1e-6), (task, metric)
    assert len(set(mine.items["last_word"]["perplexity"].values())) == 8


WIKITEXT = """---
configs:
- config_name: wikitext-2-raw-v1
  data_files:
  - {split: train, path: wikitext-2-raw-v1/train-*}
  - {split: validation, path: wikitext-2-raw-v1/validation-*}
  - {split: test, path: wikitext-2-raw-v1/test-*}
---
"""
LAMBADA = """---
configs:
- config_name: default
  data_files:
  - {split: test, path: data/lambada_test.jsonl}
---
"""
HELLASWAG = """---
configs:
- config_name: default
  data_files:
  - {split: train, path: data/train-*}
  - {split: validation, path: data/validation-*}
---
"""


def write_published_data(folder: Path) -> None:
    """Small data sets of the published schemas, laid out as their repositories on the hub."""
    words = TEXT.split()

    def put(file: str, rows: list[dict[str, object]]) -> None:
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.suffix == ".parquet":
            parquet.write_table(pyarrow.Table.from_pylist(rows), path)
        else:
            path.write_text("".join(json.dumps(row) + "\n" for row in rows))

    pages = [f' = Depth {n} = \n\n {TEXT * n}of 3 @.@ 5 heads , " read " . \n' for n in (1, 2, 5)]
    for split in ("train", "validation", "test"):
        wikitext = f"EleutherAI/wikitext_document_level/wikitext-2-raw-v1/{split}-00000-of-00001.parquet"
        put(wikitext, [{"page": page} for page in pages])
    put(
        "EleutherAI/lambada_openai/data/lambada_test.jsonl",
        [{"text": " ".join((words * 3)[n : 5 + 4 * n])} for n in range(1, 7)],
    )
    items: list[dict[str, object]] = [
        {
            "ind": n,
            "activity_label": "Reading depth",
            "ctx_a": " ".join(words[: n + 3]) + " [title] now.",
            "ctx_b": "then the head",
            "ctx": "",
            "endings": [" ".join(words[k : k + n + 2]) for k in range(4)],
            "source_id": f"activity~{n}",
            "split": "val",
            "split_type": "indomain",
            "label": str(n % 4),
        }
        for n in range(6)
    ]
    for split in ("train", "validation"):
        put(f"Rowan/hellaswag/data/{split}-00000-of-00001.parquet", items)
    for name, card in (
        ("EleutherAI/wikitext_document_level", WIKITEXT),
        ("EleutherAI/lambada_openai", LAMBADA),
        ("Rowan/hellaswag", HELLASWAG),
    ):
        (folder / name / "README.md").write_text(card)


@pytest.mark.parametrize(
    ("task", "items", "metrics"),
    [
        ("wikitext", 3, {"word_perplexity", "byte_perplexity", "bits_per_byte"}),
        ("lambada_openai", 6, {"perplexity", "acc"}),
        ("hellaswag", 6, {"acc", "acc_norm"}),
    ],
)
def test_lm_evals_own_tasks_read_copies_of_their_data(
    ours: DownstreamModel,
    job: JobConfig,
    tokenizer_file: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    task: str,
    items: int,
    metrics: set[str],
) -> None:
    """By lm-eval's own definitions of the tasks, as on a machine without a network."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    write_published_data(tmp_path / "data")
    definition = Path(lm_eval.tasks.__file__).parent / task.partition("_")[0]
    mine = run_tasks(ours, [task], include=definition, data=tmp_path / "data")
    theirs = run_tasks(theirs_of(job, tokenizer_file), [task], include=definition, data=tmp_path / "data")
    figures, expected = by_name(mine), by_name(theirs)
    assert {metric for _, metric in figures} == metrics
    assert figures == {
        name: (pytest.approx(value, rel=1e-6), stderr if stderr is None else pytest.approx(stderr, rel=1e-6))
        for name, (value, stderr) in expected.items()
    }
    for metric in metrics:
        assert mine.items[task][metric] == pytest.approx(theirs.items[task][metric], rel=1e-6)
        assert len(mine.items[task][metric]) == items


def test_a_data_set_that_was_not_copied_is_told(ours: DownstreamModel, tmp_path: Path) -> None:
    definition = Path(lm_eval.tasks.__file__).parent / "lambada"
    with pytest.raises(UserError, match=f"cannot read the data of lambada_openai in {tmp_path}: "):
        run_tasks(ours, ["lambada_openai"], include=definition, data=tmp_path)


def test_text_goes_on_as_theirs_until_a_stop(
    ours: DownstreamModel, job: JobConfig, tokenizer_file: Path
) -> None:
    theirs = theirs_of(job, tokenizer_file)
    asked = [
        SimpleNamespace(args=(TEXT[:n], {"until": until, "max_gen_toks": 20}))
        for n in (3, 30, 90)
        for until in ([], ["e", "w"])
    ]
    written = ours.generate_until(asked)
    assert written == theirs.generate_until(asked)
    assert len(set(written)) > 3
    assert any(written)


def test_what_the_model_cannot_answer_is_refused(ours: DownstreamModel) -> None:
    with pytest.raises(
        UserError, match=f"a continuation of {CONTEXT + 1} tokens; the model reads 1 to {CONTEXT}"
    ):
        ours._loglikelihood_tokens([(None, [1], [2] * (CONTEXT + 1))])
    request = SimpleNamespace(args=("The", {"until": [], "max_gen_toks": CONTEXT}))
    with pytest.raises(UserError, match=f"a task writes up to {CONTEXT} tokens after its prompt"):
        ours.generate_until([request])
    request = SimpleNamespace(args=("The", {"do_sample": True, "temperature": 1.0, "top_p": 0.9}))
    with pytest.raises(UserError, match="draws its text by top_p; we draw by temperature alone"):
        ours.generate_until([request])
    with pytest.raises(UserError, match="no task 'last_wrod'; did you mean 'last_word'"):
        check_known(["last_wrod"], list(TASKS))


def test_it_stops_between_two_passes(job: JobConfig, tokenizer_file: Path) -> None:
    stops = iter([False, True, False, True])
    model = DownstreamModel(
        ours_of(random_qwen(job), job), load_tokenizer(str(tokenizer_file)), lambda: next(stops)
    )
    one = [(None, [1, 2], [3])]
    assert len(model._loglikelihood_tokens(one)) == 1
    with pytest.raises(Stopped):
        model._loglikelihood_tokens(one)
    with pytest.raises(Stopped):
        model.generate_until([SimpleNamespace(args=(TEXT[:9], {"until": [], "max_gen_toks": 9}))])


def test_likelihoods_do_not_depend_on_what_shares_a_batch(ours: DownstreamModel) -> None:
    requests = [(None, [5] * n, [7, 9]) for n in (1, 30, 4)]
    together = ours._loglikelihood_tokens(requests)
    for request, answer in zip(requests, together, strict=True):
        window = torch.tensor([request[1] + request[2]])
        with torch.no_grad():
            logs = torch.log_softmax(ours.model(window[:, :-1]), -1)[0, -2:]
        assert answer[0] == pytest.approx(float(logs[0, 7] + logs[1, 9]), rel=1e-12)
