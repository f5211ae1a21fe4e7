import fcntl
import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from texts import as_files, as_jsonl, as_parquet, sides, words

from headcount.trainer.config import DataConfig
from headcount.trainer.data import inputs, open_dataset, prepare, shards
from headcount.trainer.data.building import build
from headcount.trainer.data.workers import Recipe
from headcount.trainer.errors import UserError

TEXTS = [words(n, 300 + n) for n in range(150)]


def whole(texts: list[str]) -> list[bytes]:
    """The two sides that these documents make as bytes."""
    documents = list(dict.fromkeys(text.encode() for text in texts if text))
    parts: tuple[list[bytes], list[bytes]] = ([], [])
    for document in documents:
        share = int(hashlib.sha256(document).hexdigest()[:16], 16) / 2**64
        parts[share < 0.05].append(document + b"\0")
    return [b"".join(part) for part in parts]


@pytest.mark.parametrize("write", [as_files, as_jsonl, as_parquet])
def test_the_same_documents_in_any_form_are_one_data_set(write: Callable[..., Path], tmp_path: Path) -> None:
    manifest = build("words", [str(write(TEXTS, tmp_path / "words.parquet"))], tmp_path, _of(write))
    assert [bytes(side) for side in sides(manifest, tmp_path)] == whole(TEXTS)
    assert (manifest.documents, manifest.bytes) == (150, sum(len(text.encode()) for text in TEXTS))
    assert manifest.validation_bytes == len(whole(TEXTS)[1]) - whole(TEXTS)[1].count(b"\0")
    folder = as_files(TEXTS, tmp_path / "files")
    config = DataConfig(context=32, source="text", text=(str(folder),))
    assert prepare(config, tmp_path / "other").fingerprint == manifest.fingerprint
    assert prepare(DataConfig(context=32, source="words"), tmp_path) == manifest


def _of(write: Callable[..., Path]) -> Recipe:
    return Recipe(format="jsonl" if write is as_jsonl else None)


@pytest.mark.parametrize("write", [as_files, as_jsonl, as_parquet])
def test_units_and_processes_do_not_show(
    write: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(write(TEXTS, tmp_path / "words.parquet"))
    files = inputs.find_inputs([path])
    monkeypatch.setattr(inputs, "UNIT_BYTES", 4096)
    assert len(inputs.cut_units(files, _of(write).format)) > 2
    manifest = build("words", [path], tmp_path, _of(write), workers=2)
    assert [bytes(side) for side in sides(manifest, tmp_path)] == whole(TEXTS)


def test_exact_duplicates_and_empty_documents_are_dropped_across_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [*TEXTS, "", *TEXTS[30:40], words(999, 500), TEXTS[0]]
    monkeypatch.setattr(inputs, "UNIT_BYTES", 4096)
    one, two = as_jsonl(texts, tmp_path / "1.jsonl"), as_parquet([*TEXTS, None], tmp_path / "2.parquet")
    manifest = build("words", [str(one), str(two)], tmp_path)
    assert [bytes(side) for side in sides(manifest, tmp_path)] == whole(texts)
    assert manifest.documents == 151


def test_one_large_text_is_cut_at_a_block_boundary_whatever_its_units(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = (words(1, 1_000_000) + words(2, 7)).encode()
    assert len(text) > 20 * 64 * 1024
    (tmp_path / "book.txt").write_bytes(text)
    (tmp_path / "copy.txt").write_bytes(text)
    monkeypatch.setattr(inputs, "UNIT_BYTES", 3 * 64 * 1024)
    manifest = build("book", [str(tmp_path / "*.txt")], tmp_path)
    cut = len(text) * 19 // 20 // 65536 * 65536
    assert [bytes(side) for side in sides(manifest, tmp_path)] == [text[:cut] + b"\0", text[cut:] + b"\0"]
    assert (manifest.documents, manifest.bytes) == (1, len(text))


def test_one_small_document_has_both_sides(tmp_path: Path) -> None:
    text = words(1, 2000, "abc ").encode()
    (tmp_path / "note.txt").write_bytes(text)
    manifest = build("note", [str(tmp_path / "note.txt")], tmp_path)
    assert [bytes(side) for side in sides(manifest, tmp_path)] == [text[:1900] + b"\0", text[1900:] + b"\0"]


def test_shards_are_of_one_size_but_the_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headcount.trainer.data.assembly.SHARD_TOKENS", 10_000)
    manifest = build("words", [str(as_jsonl(TEXTS, tmp_path / "words.jsonl"))], tmp_path)
    assert [shard.tokens for shard in manifest.train[:-1]] == [10_000] * (len(manifest.train) - 1)
    assert len(manifest.train) > 5
    assert [bytes(side) for side in sides(manifest, tmp_path)] == whole(TEXTS)
    assert shards.SHARD_TOKENS == 100_000_000


def test_preparing_again_reads_nothing_and_a_damaged_data_set_is_made_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(as_jsonl(TEXTS, tmp_path / "words.jsonl"))
    manifest = build("words", [path], tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr("headcount.trainer.data.building.tokenise", lambda *_: pytest.fail("tokenised"))
        assert build("words", [path], tmp_path) == manifest
    (tmp_path / "data" / manifest.fingerprint / "train-00000.bin").write_bytes(b"")
    assert build("words", [path], tmp_path) == manifest
    open_dataset(manifest.fingerprint, tmp_path)
    assert list((tmp_path / "data" / "partial").iterdir()) == []


PROGRAM = """
import sys, time
from pathlib import Path
from headcount.trainer.data import inputs
from headcount.trainer.data.building import build
inputs.UNIT_BYTES = 2048
home, path, *last = sys.argv[1:]
def report(stage, done, total):
    print(stage, done, total, flush=True)
    if [stage] == last and done * 4 > total:
        print("waits for its end", flush=True)
        time.sleep(300)
home, path = Path(home), Path(path)
print(build("words", [str(path)], home, workers=2, report=report).fingerprint)
"""


@pytest.mark.parametrize("stage", ["tokenising", "joining"])
def test_a_killed_preparation_goes_on(stage: str, tmp_path: Path) -> None:
    path = as_jsonl([words(n, 900) for n in range(120)], tmp_path / "words.jsonl")
    expected = build("words", [str(path)], tmp_path / "other").fingerprint
    command = [sys.executable, "-c", PROGRAM, str(tmp_path / "home"), str(path)]
    killed = subprocess.Popen([*command, stage], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert killed.stdout is not None
    assert "waits for its end\n" in killed.stdout
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert list((tmp_path / "home").rglob("*.records")), "killed too late to go on from anything"
    assert not list((tmp_path / "home" / "data").glob("*/manifest.json"))
    _wait_for_the_end_of_group(killed.pid)
    again = subprocess.run(command, capture_output=True, text=True, check=True)
    *reports, fingerprint = again.stdout.splitlines()
    assert fingerprint == expected
    assert any(line.startswith("tokenising") for line in reports)
    assert [p.name for p in (tmp_path / "home" / "data" / "partial").iterdir()] == []


def test_a_full_disk_is_told_and_a_later_try_goes_on(tmp_path: Path) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    program = (
        "import resource, sys; from pathlib import Path\n"
        "from headcount.trainer.data.building import build\n"
        "from headcount.trainer.errors import UserError\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
        "try: build('words', [sys.argv[1]], Path(sys.argv[2]), workers=1)\n"
        "except UserError as error: print(error)"
    )
    command = [sys.executable, "-c", program, str(path), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.stdout.startswith(f"cannot write the data set under {tmp_path}: File too large; "), (
        done.stderr
    )
    assert [bytes(s) for s in sides(build("words", [str(path)], tmp_path), tmp_path)] == whole(TEXTS)


def test_text_that_bytes_cannot_hold_is_named(tmp_path: Path) -> None:
    path = as_jsonl(["a", "b\0c"], tmp_path / "words.jsonl")
    with pytest.raises(
        UserError, match=r"words\.jsonl, the line at byte \d+: byte 1 is NUL, which separates"
    ):
        build("words", [str(path)], tmp_path)


def test_files_without_text(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").touch()
    with pytest.raises(UserError, match=r"no text in .*a\.jsonl: the files are empty"):
        build("words", [str(tmp_path / "a.jsonl")], tmp_path)
    (tmp_path / "a.txt").touch()
    with pytest.raises(UserError, match=r"no text in .*a\.txt: every document is empty"):
        build("words", [str(tmp_path / "a.txt")], tmp_path)


def test_files_that_change_meanwhile_are_no_data_set(tmp_path: Path) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")

    def append(stage: str, done: int, total: int) -> None:
        with open(path, "a") as file:
            file.write('{"text": "more"}\n')

    with pytest.raises(UserError, match=r"words\.jsonl changed while they were read; run it again"):
        build("words", [str(path)], tmp_path, report=append)
    assert not list(tmp_path.rglob("manifest.json"))


class _Stopped(BaseException):
    pass


def test_a_process_that_dies_and_a_stop_lose_only_what_was_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    monkeypatch.setattr(inputs, "UNIT_BYTES", 2048)

    def kill_one(stage: str, done: int, total: int) -> None:
        if done:
            multiprocessing.active_children()[0].kill()

    def stop(stage: str, done: int, total: int) -> None:
        if done * 2 > total:
            raise _Stopped

    with pytest.raises(UserError, match=r"a process that tokenises died, .* it goes on from here"):
        build("words", [str(path)], tmp_path, workers=2, report=kill_one)
    with pytest.raises(_Stopped):
        build("words", [str(path)], tmp_path, workers=2, report=stop)
    assert multiprocessing.active_children() == []
    assert len(list((tmp_path / "data" / "partial" / "words").rglob("*.records"))) > 5
    assert [bytes(s) for s in sides(build("words", [str(path)], tmp_path), tmp_path)] == whole(TEXTS)


def test_whole_parts_are_not_tokenised_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    monkeypatch.setattr(inputs, "UNIT_BYTES", 4096)

    def full_disk(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("headcount.trainer.data.building.assemble", full_disk)
        with pytest.raises(UserError, match=r"cannot write the data set under .*: No space left on device;"):
            build("words", [str(path)], tmp_path)
    found = sorted((tmp_path / "data" / "partial" / "words").rglob("*.records"))
    stamps = [part.stat().st_mtime_ns for part in found]
    damaged = found[3].with_suffix(".train")
    damaged.write_bytes(damaged.read_bytes()[:-1])
    kept: list[int] = []

    def keep(*arguments: object) -> None:
        kept.extend(part.stat().st_mtime_ns for part in found)
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("headcount.trainer.data.building.assemble", keep)
        with pytest.raises(UserError):
            build("words", [str(path)], tmp_path)
    assert [new == old for new, old in zip(kept, stamps, strict=True)] == [n != 3 for n in range(len(found))]
    assert [bytes(s) for s in sides(build("words", [str(path)], tmp_path), tmp_path)] == whole(TEXTS)


def test_parts_of_other_files_are_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    with monkeypatch.context() as patch:
        patch.setattr(
            "headcount.trainer.data.building.assemble", lambda *_: (_ for _ in ()).throw(OSError(28, ""))
        )
        with pytest.raises(UserError):
            build("words", [str(path)], tmp_path)
    as_jsonl(TEXTS[:100], path)
    assert [bytes(s) for s in sides(build("words", [str(path)], tmp_path), tmp_path)] == whole(TEXTS[:100])


def test_a_name_is_prepared_by_one_process_at_a_time(tmp_path: Path) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    own = tmp_path / "data" / "partial" / "words"
    own.mkdir(parents=True)
    with open(own / "lock", "w") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        with pytest.raises(UserError, match="'words' is being prepared by another process; wait for it"):
            build("words", [str(path)], tmp_path)
    build("words", [str(path)], tmp_path)


def test_a_taken_name_is_replaced_only_when_asked(tmp_path: Path) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    first = build("words", [str(path)], tmp_path)
    as_jsonl(TEXTS[:99], path)
    with pytest.raises(UserError, match=f"'words' is registered .*{first.fingerprint[:12]}.*--replace"):
        build("words", [str(path)], tmp_path)
    second = build("words", [str(path)], tmp_path, replacing=True)
    assert prepare(DataConfig(context=8, source="words"), tmp_path) == second != first
    open_dataset(first.fingerprint, tmp_path)


def _wait_for_the_end_of_group(group: int) -> None:
    """The workers of a killed process end by themselves."""
    for _ in range(200):
        try:
            os.killpg(group, 0)
        except ProcessLookupError:
            return
        time.sleep(0.05)
    pytest.fail("the workers of a killed preparation are still there")
