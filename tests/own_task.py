"""A task of one's own for lm-eval: two choices an item, scored by accuracy."""

import json
from collections.abc import Sequence
from pathlib import Path


def write_heads_task(folder: Path, labels: Sequence[int], cache: Path) -> None:
    """The task `heads` with an item for each label; its data set is kept in `cache`."""
    items = [
        {"prompt": f"the depth {n}", "choices": ["of a head", "zzzz"], "label": label}
        for n, label in enumerate(labels)
    ]
    (folder / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    task = {
        "task": "heads",
        "dataset_path": "json",
        "dataset_kwargs": {
            "data_files": {"test": str(folder / "items.jsonl")},
            "cache_dir": str(cache),
        },
        "test_split": "test",
        "output_type": "multiple_choice",
        "doc_to_text": "{{prompt}}",
        "doc_to_choice": "{{choices}}",
        "doc_to_target": "{{label}}",
        "metric_list": [{"metric": "acc", "aggregation": "mean", "higher_is_better": True}],
    }
    (folder / "heads.yaml").write_text(json.dumps(task))
