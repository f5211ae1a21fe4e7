import hashlib
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from headcount.trainer.config import DataConfig
from headcount.trainer.data import Manifest, open_dataset, prepare
from headcount.trainer.data.shards import Shard
from headcount.trainer.data.sources import find_source
from headcount.trainer.errors import UserError

CONTEXT = 32

GOLDEN_FINGERPRINT = "47814f351581c449ccb677648ad1caaf3b53df17c58f658d32c47a42ecc93f32"
"""Of `library`. Raise NUMERICS when it changes: the same text would be trained on as another data set."""


def of_text(*paths: Path | str, context: int = CONTEXT) -> DataConfig:
    return DataConfig(context=context, source="text", text=tuple(map(str, paths)))


def words(seed: int, size: int) -> str:
    drawn = random.Random(seed)
    return "".join(drawn.choice("abcdefgh \n") for _ in range(size))


def library(folder: Path, documents: int = 200, size: int = 500) -> Path:
    folder.mkdir()
    for n in range(documents):
        (folder / f"{n:03}.txt").write_text(words(n, size))
    return folder


def sides(manifest: Manifest, home: Path) -> tuple[bytes, bytes]:
    folder = home / "data" / manifest.fingerprint
    return (folder / "train.bin").read_bytes(), (folder / "validation.bin").read_bytes()


def test_documents_go_whole_to_the_side_of_their_content(tmp_path: Path) -> None:
    folder = library(tmp_path / "text")
    manifest = prepare(of_text(folder), tmp_path)
    train, validation = sides(manifest, tmp_path)
    expected: tuple[list[bytes], list[bytes]] = ([], [])
    for path in sorted(folder.iterdir()):
        document = path.read_bytes()
        share = int(hashlib.sha256(document).hexdigest()[:16], 16) / 2**64
        expected[share < 0.05].append(document + b"\0")
    assert (train, validation) == (b"".join(expected[0]), b"".join(expected[1]))
    assert 0.02 < len(expected[1]) / 200 < 0.09
    assert manifest == Manifest(
        fingerprint=manifest.fingerprint,
        name="text",
        vocab_size=256,
        train_tokens=len(train),
        validation_tokens=len(validation),
        documents=200,
        bytes=200 * 500,
        validation_bytes=len(validation) - validation.count(b"\0"),
        train=(Shard("train.bin", len(train), hashlib.sha256(train).hexdigest()),),
        validation=(Shard("validation.bin", len(validation), hashlib.sha256(validation).hexdigest()),),
    )
    assert manifest.fingerprint == GOLDEN_FINGERPRINT


def test_a_document_keeps_its_side_when_others_come(tmp_path: Path) -> None:
    folder = library(tmp_path / "text")
    _, before = sides(prepare(of_text(folder), tmp_path), tmp_path)
    for n in range(200, 300):
        (folder / f"{n:03}.txt").write_text(words(n, 500))
    _, after = sides(prepare(of_text(folder), tmp_path), tmp_path)
    assert after.startswith(before)
    assert len(after) > len(before)


def test_exact_duplicates_and_empty_files_are_dropped(tmp_path: Path) -> None:
    folder = library(tmp_path / "text")
    first = prepare(of_text(folder), tmp_path)
    (folder / "zz_copy.txt").write_bytes((folder / "007.txt").read_bytes())
    (folder / "zz_empty.txt").touch()
    assert prepare(of_text(folder), tmp_path) == first


def test_one_large_file_is_cut_at_a_block_boundary(tmp_path: Path) -> None:
    text = words(1, 30 * 64 * 1024 + 5).encode()
    (tmp_path / "book.txt").write_bytes(text)
    train, validation = sides(prepare(of_text(tmp_path / "book.txt"), tmp_path), tmp_path)
    cut = 28 * 64 * 1024  # 28.5 blocks are 95 %
    assert (train, validation) == (text[:cut] + b"\0", text[cut:] + b"\0")
    shared = {train[i : i + 64] for i in range(0, len(train), 64)} & {
        validation[i : i + 64] for i in range(len(validation) - 64)
    }
    assert not shared


def test_one_small_file_has_both_sides(tmp_path: Path) -> None:
    text = words(1, 2000).encode()
    (tmp_path / "note.txt").write_bytes(text)
    train, validation = sides(prepare(of_text(tmp_path / "note.txt"), tmp_path), tmp_path)
    assert (train, validation) == (text[:1900] + b"\0", text[1900:] + b"\0")


def test_the_fingerprint_is_of_the_tokens(tmp_path: Path) -> None:
    here, there = library(tmp_path / "here"), library(tmp_path / "there")
    first = prepare(of_text(here), tmp_path)
    assert prepare(of_text(there), tmp_path).fingerprint == first.fingerprint
    assert prepare(of_text(f"{there}/*.txt"), tmp_path / "home").fingerprint == first.fingerprint
    (there / "000.txt").write_text("another beginning")
    assert prepare(of_text(there), tmp_path).fingerprint != first.fingerprint


def test_a_second_preparation_reads_no_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = library(tmp_path / "text")
    first = prepare(of_text(folder), tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "read_bytes", lambda path: pytest.fail(f"read {path}"))
        assert prepare(of_text(folder), tmp_path) == first


def test_a_change_that_keeps_size_and_modification_time_is_seen(tmp_path: Path) -> None:
    folder = library(tmp_path / "text")
    first = prepare(of_text(folder), tmp_path)
    stat = (folder / "000.txt").stat()
    (folder / "000.txt").write_text(words(12345, 500))
    os.utime(folder / "000.txt", ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert prepare(of_text(folder), tmp_path).fingerprint != first.fingerprint


def test_a_damaged_data_set_is_refused_and_prepared_again(tmp_path: Path) -> None:
    config = of_text(library(tmp_path / "text"))
    manifest = prepare(config, tmp_path)
    whole = sides(manifest, tmp_path)
    with open(tmp_path / "data" / manifest.fingerprint / "train.bin", "r+b") as file:
        file.truncate(100)
    with pytest.raises(UserError, match=r"train\.bin is cut short: it has 100 bytes where 95691 tokens"):
        open_dataset(manifest.fingerprint, tmp_path)
    assert prepare(config, tmp_path) == manifest
    assert sides(manifest, tmp_path) == whole


def test_what_a_killed_preparation_left_is_removed_after_a_day(tmp_path: Path) -> None:
    old, new = tmp_path / "data" / ".preparing-old", tmp_path / "data" / ".preparing-new"
    for left in (old, new):
        left.mkdir(parents=True)
        (left / "train.bin").touch()
    day_before = time.time() - 25 * 3600
    os.utime(old, (day_before, day_before))
    prepare(of_text(library(tmp_path / "text")), tmp_path)
    assert [p.name for p in (tmp_path / "data").glob(".preparing-*")] == [".preparing-new"]


def test_processes_that_prepare_at_once_leave_one_complete_data_set(tmp_path: Path) -> None:
    folder = library(tmp_path / "text")
    code = (
        "import sys; from pathlib import Path; from headcount.trainer.config import DataConfig;"
        "from headcount.trainer.data import prepare;"
        f"print(prepare(DataConfig(32, 'text', ({str(folder)!r},)), Path({str(tmp_path)!r})).fingerprint)"
    )
    racers = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) for _ in range(3)]
    printed = {racer.communicate()[0] for racer in racers}
    assert [racer.returncode for racer in racers] == [0, 0, 0]
    assert len(printed) == 1
    open_dataset(printed.pop().decode().strip(), tmp_path)
    assert not list((tmp_path / "data").glob(".preparing-*"))


@pytest.fixture(scope="module")
def library_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the Python library is prepared."""
    home = tmp_path_factory.mktemp("library")
    prepare(DataConfig(context=128), home)
    return home


def test_hardly_any_validation_text_is_in_the_training_text(tmp_path: Path, library_home: Path) -> None:
    """How many of the 64-byte windows of the validation side are in the training side too, on real text.

    Under 10 % where documents are split, most of that in two modules that are nearly copies of others (only
    exact copies are dropped); under 2 % where one large file is cut.
    """
    train, validation = sides(prepare(DataConfig(context=128), library_home), library_home)
    assert _share_of_windows(validation, train) < 0.10
    source = find_source(DataConfig(context=128))
    (tmp_path / "library.txt").write_bytes(b"".join(source.read(path) for path in source.files))
    train, validation = sides(prepare(of_text(tmp_path / "library.txt"), tmp_path), tmp_path)
    assert len(validation) / len(train) == pytest.approx(1 / 19, rel=0.12)
    assert _share_of_windows(validation, train) < 0.02
    assert _share_of_windows(train[:1000], train) == 1


def _share_of_windows(asked: bytes, text: bytes) -> float:
    share: float = np.isin(_window_hashes(asked), _window_hashes(text)).mean()
    return share


def _window_hashes(text: bytes) -> np.ndarray:
    """Hashes of a sixteenth of all 64-byte windows, the same ones in any text."""
    hashes, factor = np.frombuffer(text, np.uint8).astype(np.uint64), np.uint64(0x9E3779B97F4A7C15)
    for width in (1, 2, 4, 8, 16, 32):
        mixed = (hashes[:-width] ^ (hashes[:-width] >> np.uint64(29))) * factor
        hashes = mixed + hashes[width:] * np.uint64(0xD1B54A32D192ED03)
    return hashes[(hashes >> np.uint64(60)) == 0]


def test_stdlib(library_home: Path) -> None:
    manifest = prepare(DataConfig(context=128), library_home)
    assert manifest.name == "stdlib"
    assert manifest.train_tokens > 5_000_000
    assert 0.01 < manifest.validation_tokens / manifest.train_tokens < 0.1
    train, validation = sides(manifest, library_home)
    documents = [*train.split(b"\0"), *validation.split(b"\0")]
    this = Path(random.__file__).read_bytes()
    assert documents.count(this) == 1
    written = {path: path.stat().st_mtime_ns for path in library_home.rglob("*") if path.is_file()}
    assert prepare(DataConfig(context=128), library_home) == manifest
    assert {path: path.stat().st_mtime_ns for path in library_home.rglob("*") if path.is_file()} == written


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("latin.txt", b"caf\xe9", r"latin\.txt is not UTF-8 \(byte 3 is 0xe9\)"),
        ("binary.txt", b"ab\0c", r"binary\.txt is not text: byte 2 is NUL"),
        ("short.txt", b"short", r"too little text: \d+ train tokens of 5 bytes, where one window needs 33"),
        ("empty.txt", b"", r"too little text: 0 train tokens of 0 bytes"),
    ],
)
def test_unusable_text(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        prepare(of_text(tmp_path / name), tmp_path / "home")
    assert not list((tmp_path / "home").rglob(".*"))


def test_too_little_for_the_context_although_prepared(tmp_path: Path) -> None:
    folder = library(tmp_path / "text", documents=40, size=100)
    prepare(of_text(folder), tmp_path)
    with pytest.raises(UserError, match=r"^data\.text: too little text: \d+ validation tokens of 4000 bytes"):
        prepare(of_text(folder, context=2000), tmp_path)


def test_missing_text(tmp_path: Path) -> None:
    (tmp_path / "novel.txt").write_text("…")
    (tmp_path / "folder").mkdir()
    with pytest.raises(UserError, match=r"novels\.txt does not exist; did you mean 'novel\.txt'\?$"):
        prepare(of_text(tmp_path / "novels.txt"), tmp_path)
    with pytest.raises(UserError, match=r"/a/b\.txt does not exist \(looked in .*\)"):
        prepare(of_text(tmp_path / "a" / "b.txt"), tmp_path)
    with pytest.raises(UserError, match=r"folder is a folder without files"):
        prepare(of_text(tmp_path / "folder"), tmp_path)
    with pytest.raises(UserError, match=r"\*\.md is a pattern that matches no file"):
        prepare(of_text(f"{tmp_path}/*.md"), tmp_path)
    with pytest.raises(UserError, match=r"^data\.source: unknown data set 'stdlb'; did you mean 'stdlib'"):
        prepare(DataConfig(context=32, source="stdlb"), tmp_path)


def test_a_home_that_cannot_be_written(tmp_path: Path) -> None:
    folder = library(tmp_path / "text")
    (tmp_path / "home").write_text("a file")
    with pytest.raises(UserError, match=r"cannot write the data set under .*home: Not a directory"):
        prepare(of_text(folder), tmp_path / "home")


def test_a_full_disk_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = library(tmp_path / "text")
    code = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000));"
        "from pathlib import Path; from headcount.trainer.config import DataConfig;"
        "from headcount.trainer.data import prepare; from headcount.trainer.errors import UserError\n"
        f"try: prepare(DataConfig(32, 'text', ({str(folder)!r},)), Path({str(tmp_path / 'home')!r}))\n"
        "except UserError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "cannot write the data set under" in done.stdout
    assert not [p for p in (tmp_path / "home").rglob("*") if p.is_file()]


def test_opening_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no data set in .*abc; prepare it on this machine"):
        open_dataset("abc", tmp_path)
