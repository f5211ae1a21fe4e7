"""lm-eval's own tasks, by its own definitions, on copies of their data sets."""

import json
from pathlib import Path

import lm_eval.tasks
import pyarrow
import pytest
from downstream_models import TEXT, by_name, theirs_of
from pyarrow import parquet

from headcount.trainer.config import JobConfig
from headcount.trainer.downstream.model import DownstreamModel
from headcount.trainer.downstream.running import run_tasks
from headcount.trainer.errors import UserError

pytestmark = pytest.mark.filterwarnings("ignore")  # lm-eval's and its libraries' own

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
