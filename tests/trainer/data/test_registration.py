import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from texts import as_jsonl, sides, words

from headcount.trainer.config import DataConfig
from headcount.trainer.data import open_dataset, prepare
from headcount.trainer.data.building import build
from headcount.trainer.data.manifest import dataset_folder
from headcount.trainer.data.names import get_named
from headcount.trainer.data.registration import Stated, register
from headcount.trainer.data.verification import verify
from headcount.trainer.errors import UserError

TRAIN = np.random.default_rng(0).integers(0, 50_257, 3000)
VALIDATION = np.random.default_rng(1).integers(0, 50_257, 500)
TRAIN[[0, 700]] = VALIDATION[0] = 50_256


def llmc(folder: Path, magic: int = 20240520, version: int = 1, dtype: str = "<u2") -> Path:
    """Shards as llm.c writes them: a validation one and two for training."""
    folder.mkdir(exist_ok=True)
    parts = {
        "words_val_000000": VALIDATION,
        "words_train_000001": TRAIN[:1000],
        "words_train_000002": TRAIN[1000:],
    }
    for name, tokens in parts.items():
        header = np.zeros(256, dtype="<i4")
        header[:3] = magic, version, len(tokens)
        (folder / f"{name}.bin").write_bytes(header.tobytes() + tokens.astype(dtype).tobytes())
    return folder


def llama(folder: Path) -> Path:
    return llmc(folder, 20240801, 7, "<u4")


def nanogpt(folder: Path, dtype: str = "<u2") -> Path:
    folder.mkdir()
    (folder / "train.bin").write_bytes(TRAIN.astype(dtype).tobytes())
    (folder / "val.bin").write_bytes(VALIDATION.astype(dtype).tobytes())
    (folder / "meta.pkl").write_bytes(b"never read")
    return folder


@pytest.mark.parametrize(
    ("write", "stated", "tokenizer", "vocab_size", "dtype", "documents"),
    [
        (llmc, Stated(), "gpt2", 50_257, "uint16", 3),
        (llama, Stated(), "llama3", 128_256, "uint32", 0),
        (nanogpt, Stated(vocab_size=50_304, dtype="uint16"), "not stated", 50_304, "uint16", None),
    ],
)
def test_tokens_of_others_are_read_where_they_lie(
    write: Callable[[Path], Path],
    stated: Stated,
    tokenizer: str,
    vocab_size: int,
    dtype: str,
    documents: int | None,
    tmp_path: Path,
) -> None:
    folder = write(tmp_path / "shards")
    before = sorted(folder.iterdir())
    manifest = register("words", [str(folder)], tmp_path / "home", stated)
    assert (manifest.tokenizer, manifest.vocab_size, manifest.dtype) == (tokenizer, vocab_size, dtype)
    assert (manifest.documents, manifest.bytes, manifest.bytes_per_token) == (documents, None, None)
    assert sides(manifest, tmp_path / "home") == [TRAIN.tolist(), VALIDATION.tolist()]
    assert sorted(folder.iterdir()) == before
    assert prepare(DataConfig(context=16, source="words"), tmp_path / "home") == manifest
    dataset = open_dataset(manifest.fingerprint, tmp_path / "home")
    assert dataset.validation(windows=1, context=16).tolist() == [VALIDATION[:17].tolist()]
    epoch = [dataset.batch(0, step, 1, 100)[0].tolist() for step in range(29)]
    assert sorted(epoch) == sorted(TRAIN[n * 100 : n * 100 + 101].tolist() for n in range(29))


def test_our_own_data_set_from_another_home(tmp_path: Path) -> None:
    path = as_jsonl([words(n, 400) for n in range(60)], tmp_path / "words.jsonl")
    made = build("words", [str(path)], tmp_path / "there")
    copy = tmp_path / "copy"
    shutil.copytree(dataset_folder(made.fingerprint, tmp_path / "there"), copy)
    manifest = register("taken", [str(copy)], tmp_path / "here")
    assert (manifest.fingerprint, manifest.bytes, manifest.name) == (made.fingerprint, made.bytes, "taken")
    assert sides(manifest, tmp_path / "here") == sides(made, tmp_path / "there")
    content = bytearray((copy / "train-00000.bin").read_bytes())
    content[5] ^= 1
    (copy / "train-00000.bin").write_bytes(content)
    with pytest.raises(UserError, match=r"copy/train-00000\.bin holds other tokens than its manifest states"):
        verify(get_named("taken", tmp_path / "here"), dataset_folder(made.fingerprint, tmp_path / "here"))
    with pytest.raises(UserError, match=r"copy/train-00000\.bin holds other tokens"):
        register("again", [str(copy)], tmp_path / "third")


def test_bytes_of_the_text_are_counted_where_the_tokenizer_tells_them(tmp_path: Path) -> None:
    (tmp_path / "train.bin").write_bytes(b"abc\0de\0")
    (tmp_path / "val.bin").write_bytes(b"fgh\0")
    stated = Stated(dtype="uint8", tokenizer="bytes")
    manifest = register("letters", [f"{tmp_path}/*.bin"], tmp_path / "home", stated)
    assert (manifest.bytes, manifest.validation_bytes, manifest.documents) == (8, 3, 3)
    assert manifest.bytes_per_token == 0.75


def test_an_id_that_the_tokenizer_does_not_have_is_refused(tmp_path: Path) -> None:
    for side in ("train", "val"):
        np.array([97, 300, 0], dtype="<u2").tofile(tmp_path / f"{side}.bin")
    stated = Stated(vocab_size=512, dtype="uint16", tokenizer="bytes")
    with pytest.raises(UserError, match=r"\.bin holds the token 300 where the vocabulary has 256"):
        register("letters", [f"{tmp_path}/*.bin"], tmp_path / "home", stated)


def test_the_validation_side_can_be_named(tmp_path: Path) -> None:
    folder = llmc(tmp_path / "shards")
    (folder / "words_val_000000.bin").rename(folder / "first.bin")
    with pytest.raises(UserError, match=r"no validation side among first\.bin, .*those of --validation"):
        register("words", [str(folder)], tmp_path / "home")
    manifest = register(
        "words", [str(folder)], tmp_path / "home", Stated(validation=(f"{folder}/first.bin",))
    )
    assert sides(manifest, tmp_path / "home") == [TRAIN.tolist(), VALIDATION.tolist()]


def change(path: Path, at: int, content: bytes) -> None:
    whole = path.read_bytes()
    path.write_bytes(whole[:at] + content + whole[at + len(content) :])


@pytest.mark.parametrize(
    ("damage", "stated", "message"),
    [
        (
            lambda path: path.write_bytes(path.read_bytes()[:-2]),
            Stated(),
            r"words_train_000002\.bin is cut short: it has 5022 bytes where 2000 tokens of uint16 take 5024",
        ),
        (
            lambda path: path.write_bytes(path.read_bytes() + b"\0\0"),
            Stated(),
            r"000002\.bin is too long: it has",
        ),
        (
            lambda path: change(path, 1024 + 20, b"\xff\xff"),
            Stated(),
            r"words_train_000002\.bin holds the token 65535 where the vocabulary has 50257; is its type",
        ),
        (
            lambda path: None,
            Stated(vocab_size=50_000),
            r"\.bin holds the token 50\d\d\d where the vocabulary has",
        ),
        (
            lambda path: change(path, 4, b"\2"),
            Stated(),
            r"words_train_000002\.bin is of version 2 of llm\.c's format; expected 1",
        ),
        (
            lambda path: None,
            Stated(dtype="uint32"),
            r"words_\w+\.bin is of llm\.c's format and holds uint16, not uint32",
        ),
        (
            lambda path: path.write_bytes(path.read_bytes()[1024:]),
            Stated(dtype="uint16"),
            r"000002\.bin holds uint16 without a header, and .*000001\.bin uint16 with llm\.c header;",
        ),
    ],
)
def test_shards_that_are_refused(
    damage: Callable[[Path], None], stated: Stated, message: str, tmp_path: Path
) -> None:
    folder = llmc(tmp_path / "shards")
    damage(folder / "words_train_000002.bin")
    with pytest.raises(UserError, match=message):
        register("words", [str(folder)], tmp_path / "home", stated)
    assert not list((tmp_path / "home").rglob("*.json"))


@pytest.mark.parametrize(
    ("stated", "message"),
    [
        (
            Stated(vocab_size=50_257),
            r"train\.bin has no header that tells its type of number; say --dtype uint16",
        ),
        (Stated(dtype="uint16"), r"train\.bin does not tell its vocabulary; say --vocabulary SIZE"),
        (
            Stated(vocab_size=50_257, dtype="uint32"),
            r"train\.bin holds the token \d+ where the vocabulary has",
        ),
    ],
)
def test_bare_files_that_are_refused(stated: Stated, message: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=message):
        register("words", [str(nanogpt(tmp_path / "shards"))], tmp_path / "home", stated)


def test_wider_tokens_are_not_taken_for_narrow_ones(tmp_path: Path) -> None:
    folder = nanogpt(tmp_path / "shards", "<u4")
    with pytest.raises(UserError, match=r"train\.bin looks like tokens of uint32, not of uint16"):
        register("words", [str(folder)], tmp_path / "home", Stated(vocab_size=50_257, dtype="uint16"))
    (folder / "val.bin").write_bytes(b"abc")
    with pytest.raises(
        UserError, match=r"val\.bin has 3 bytes, not a number of uint32 tokens; is it cut short\?"
    ):
        register("words", [str(folder)], tmp_path / "home", Stated(vocab_size=50_257, dtype="uint32"))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (
            lambda path: path.write_bytes(path.read_bytes()[:-1]),
            r"000002\.bin is cut short: it has 5023 bytes",
        ),
        (lambda path: path.unlink(), r"words_train_000002\.bin is missing; did you mean 'words_train_00000"),
        (lambda path: change(path, 8, b"\1"), r"000002\.bin has a header of \d+ tokens of uint16 where 2000"),
        (
            lambda path: change(path, 0, b"\1"),
            r"000002\.bin has no llm\.c header where 2000 tokens of uint16",
        ),
    ],
)
def test_a_shard_changed_since_is_refused_on_opening(
    damage: Callable[[Path], None], message: str, tmp_path: Path
) -> None:
    folder = llmc(tmp_path / "shards")
    manifest = register("words", [str(folder)], tmp_path / "home")
    damage(folder / "words_train_000002.bin")
    with pytest.raises(UserError, match=message):
        open_dataset(manifest.fingerprint, tmp_path / "home")


def test_names(tmp_path: Path) -> None:
    folder = llmc(tmp_path / "shards")
    register("words-10b", [str(folder)], tmp_path)
    register("words-10b", [str(folder)], tmp_path)
    with pytest.raises(
        UserError, match=r"'my words/1' cannot name a data set; .*did you mean 'my-words-1'\?"
    ):
        register("my words/1", [str(folder)], tmp_path)
    with pytest.raises(UserError, match="'stdlib' is a source of its own; choose another name"):
        register("stdlib", [str(folder)], tmp_path)
    with pytest.raises(
        UserError,
        match=r"^data\.source: unknown data set 'word-10b'; did you mean 'words-10b'\?; registered here: "
        r"stdlib, words-10b; or make it: headcount data prepare word-10b FILES$",
    ):
        prepare(DataConfig(context=8, source="word-10b"), tmp_path)
    (tmp_path / "data" / "secret.json").write_text((tmp_path / "data/names/words-10b.json").read_text())
    with pytest.raises(UserError, match=r"unknown data set '\.\./secret'"):
        prepare(DataConfig(context=8, source="../secret"), tmp_path)
    entry = json.loads((tmp_path / "data" / "names" / "words-10b.json").read_text())
    assert entry["fingerprint"] == get_named("words-10b", tmp_path).fingerprint
