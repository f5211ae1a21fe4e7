from pathlib import Path

import numpy as np
import pytest

from headcount.trainer.config import DataConfig
from headcount.trainer.data import Dataset, Manifest, open_dataset, prepare
from headcount.trainer.data.order import windows_of_step
from headcount.trainer.data.shards import ShardWriter
from headcount.trainer.errors import UserError


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


def in_shards(tokens: np.ndarray, limit: int, vocab_size: int, home: Path) -> Dataset:
    """A data set with these tokens on both sides, in shards of `limit`."""
    dtype = tokens.dtype.name
    folder = home / "data" / "f"
    folder.mkdir(parents=True)
    with (
        ShardWriter(folder, "train", dtype, limit) as train,
        ShardWriter(folder, "validation", dtype, limit) as validation,
    ):
        for part in np.array_split(tokens, 7):
            train.write(part)
            validation.write(part)
    size = len(tokens)
    manifest = Manifest(
        *("f", "words", vocab_size, size, size, None, None, None, "words", dtype, 0),
        *(train.shards, validation.shards),
    )
    (folder / "manifest.json").write_text(manifest.to_json())
    return open_dataset("f", home)


@pytest.mark.parametrize("limit", [5, 16, 100, 999, 1000])
def test_windows_do_not_depend_on_how_tokens_are_cut_into_shards(limit: int, tmp_path: Path) -> None:
    tokens = np.random.default_rng(0).integers(0, 50_257, 1000).astype("<u2")
    dataset = in_shards(tokens, limit, 50_257, tmp_path)
    assert len(dataset.manifest.train) == -(-1000 // limit)
    chosen = windows_of_step("f", 3, 2, 8, 62)
    expected = [tokens[n * 16 : n * 16 + 17].tolist() for n in chosen]
    assert dataset.batch(seed=3, step=2, windows=8, context=16).tolist() == expected
    assert dataset.validation(windows=62, context=16)[-1].tolist() == tokens[61 * 16 : 61 * 16 + 17].tolist()


def test_an_id_beyond_the_vocabulary_is_told_with_its_shard(tmp_path: Path) -> None:
    tokens = np.arange(100, dtype="<u4")
    dataset = in_shards(tokens, 50, 90, tmp_path)
    with pytest.raises(
        UserError, match=r"validation-00001\.bin holds the token 90 where the vocabulary has 90;"
    ):
        dataset.validation(windows=100, context=8)


def test_a_damaged_shard_is_named_on_opening(tmp_path: Path) -> None:
    in_shards(np.arange(100, dtype="<u4"), 50, 100, tmp_path)
    with open(tmp_path / "data" / "f" / "train-00001.bin", "r+b") as file:
        file.truncate(199)
    with pytest.raises(
        UserError,
        match=r"train-00001\.bin is cut short: it has 199 bytes where 50 tokens of uint32 take 200; prepare",
    ):
        open_dataset("f", tmp_path)
    (tmp_path / "data" / "f" / "train-00001.bin").unlink()
    with pytest.raises(UserError, match=r"train-00001\.bin is missing; did you mean 'train-00000\.bin'\?$"):
        open_dataset("f", tmp_path)
