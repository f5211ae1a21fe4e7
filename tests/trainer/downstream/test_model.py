"""Our additive model and a Qwen3 of transformers with the same weights, which lm-eval runs by itself."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from downstream_models import CONTEXT, TEXT, by_name, theirs_of
from qwen import ours_of, random_qwen

from headcount.trainer.config import JobConfig
from headcount.trainer.data.tokenizer import load_tokenizer
from headcount.trainer.downstream.model import DownstreamModel
from headcount.trainer.downstream.running import check_known, run_tasks
from headcount.trainer.errors import Stopped, UserError

pytestmark = pytest.mark.filterwarnings("ignore")  # lm-eval's and its libraries' own

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
