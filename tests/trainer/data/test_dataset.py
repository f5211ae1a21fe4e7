from pathlib import Path

import numpy as np
import pytest

from headcount.trainer.config import DataConfig
from headcount.trainer.data import Dataset, Manifest, open_dataset, prepare


@pytest.fixture
def dataset(tmp_path: Path) -> Dataset:
    (tmp_path / "text.txt").write_text("".join(chr(97 + n % 26) + str(n) for n in range(10_000)))
    config = DataConfig(context=16, source="text", text=(str(tmp_path / "text.txt"),))
    return open_dataset(prepare(config, tmp_path).fingerprint, tmp_path)


def test_windows_lie_end_to_end_and_share_one_token(dataset: Dataset, tmp_path: Path) -> None:
    count = dataset.train_windows(16)
    epoch = np.concatenate([dataset.batch(seed=3, step=s, windows=1, context=16) for s in range(count)])
    tokens = np.fromfile(tmp_path / "data" / dataset.manifest.fingerprint / "train.bin", dtype=np.uint8)
    inputs = epoch[:, :16]
    assert count == (len(tokens) - 1) // 16
    expected = {tokens[n * 16 : n * 16 + 17].tobytes() for n in range(count)}
    assert {row.astype(np.uint8).tobytes() for row in epoch} == expected
    assert inputs.dtype == np.int64
    assert epoch.shape == (count, 17)


def test_a_batch_is_the_same_for_every_batch_size(dataset: Dataset) -> None:
    whole = dataset.batch(seed=0, step=1, windows=8, context=16)
    halves = [dataset.batch(seed=0, step=s, windows=4, context=16) for s in (2, 3)]
    assert np.array_equal(whole, np.concatenate(halves))


def test_validation_windows_are_fixed_and_from_the_other_side(dataset: Dataset, tmp_path: Path) -> None:
    windows = dataset.validation(windows=8, context=16)
    tokens = np.fromfile(tmp_path / "data" / dataset.manifest.fingerprint / "validation.bin", dtype=np.uint8)
    available = (len(tokens) - 1) // 16
    starts = [n * available // 8 * 16 for n in range(8)]
    assert windows.tolist() == [tokens[s : s + 17].tolist() for s in starts]
    assert len(dataset.validation(windows=10_000, context=16)) == available


def test_manifest_survives_json() -> None:
    manifest = Manifest("f" * 64, "text", 256, 10, 2, 3, 12)
    assert Manifest.from_json(manifest.to_json()) == manifest
    with pytest.raises(ValueError, match="not a manifest"):
        Manifest.from_json('{"fingerprint": "f"}')
