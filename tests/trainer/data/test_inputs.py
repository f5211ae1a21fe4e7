import subprocess
import sys
from pathlib import Path

import pyarrow
import pytest
from pyarrow import parquet
from texts import as_jsonl, as_parquet, words

from headcount.trainer.data import inputs
from headcount.trainer.data.documents import documents
from headcount.trainer.data.inputs import cut_units, find_inputs
from headcount.trainer.errors import UserError

TEXTS = [words(n, 50) for n in range(100)]


def read(*entries: str | Path, column: str = "text", form: inputs.Format | None = None) -> list[str]:
    units = cut_units(find_inputs([str(entry) for entry in entries]), form)
    return [d.content.decode() for unit in units for part in unit for d in documents(part, column)]


@pytest.mark.parametrize("size", [1, 7, 64, 1000, 10**6])
def test_every_line_is_read_once_wherever_a_file_is_cut(
    size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "UNIT_BYTES", size)
    texts = TEXTS[:20]
    path = as_jsonl(texts, tmp_path / "words.jsonl")
    assert read(path) == texts
    path.write_bytes(b"\n\r\n" + path.read_bytes().replace(b"\n", b"\r\n\n")[:-3])  # no newline at the end
    assert read(path) == texts


@pytest.mark.parametrize("rows", [1, 30, 1000])
def test_every_row_group_is_read_once(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "UNIT_BYTES", 2000)
    as_parquet(TEXTS, tmp_path / "words.parquet", rows)
    assert read(tmp_path / "words.parquet") == TEXTS


def test_files_come_in_the_order_given_and_once(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.md"):
        (tmp_path / name).write_text(name)
    assert read(tmp_path / "c.md", tmp_path / "*.txt", tmp_path) == ["c.md", "a.txt", "b.txt"]


def test_a_url_is_read_as_a_path_is(tmp_path: Path) -> None:
    path = as_parquet(TEXTS, tmp_path / "words.parquet", 30)
    (tmp_path / "a.txt").write_text("text")
    assert read(f"file://{path}") == TEXTS
    assert read(f"file://{tmp_path}/*.parquet", f"file://{tmp_path}/a.txt") == [*TEXTS, "text"]
    as_jsonl(TEXTS, tmp_path / "more.jsonl")
    assert len(read(f"file://{tmp_path}")) == 201
    [file] = find_inputs([f"file://{path}"])
    path.write_bytes(path.read_bytes())
    [again] = find_inputs([f"file://{path}"])
    assert file.stamp != again.stamp


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ("words.jsonll", r"words\.jsonll does not exist; did you mean 'words\.jsonl'\?"),
        ("*.csv", r"\*\.csv is a pattern that matches no file"),
        ("file:///nowhere/*.txt", r"file:///nowhere/\*\.txt stands for no file"),
        ("file:///nowhere.txt", r"file:///nowhere\.txt does not exist"),
        ("nothing://here", r"cannot read nothing://here: ValueError: Protocol not known: nothing"),
        ("hf:words", r"hf:words: expected hf:OWNER/NAME or hf:OWNER/NAME/FOLDER"),
    ],
)
def test_what_is_not_there(entry: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    as_jsonl(TEXTS, tmp_path / "words.jsonl")
    with pytest.raises(UserError, match=message):
        find_inputs([entry])


def test_the_hub_without_a_network() -> None:
    program = (
        "from headcount.trainer.data.inputs import find_inputs\n"
        "from headcount.trainer.errors import UserError\n"
        "try: find_inputs(['hf:owner/name/sample'])\nexcept UserError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.startswith("cannot read hf://datasets/owner/name/sample/**/*.parquet: "), done.stderr


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.jsonl", b'{"text": "a"}\n{"text"\n', r"a\.jsonl, the line at byte 14: not JSON \("),
        ("a.jsonl", b"[1]\n", r"a\.jsonl, the line at byte 0: expected an object such as"),
        ("a.jsonl", b'{"txt": "a"}', r"byte 0: no field 'text'; --column: did you mean 'txt'\?"),
        ("a.jsonl", b'{"text": 3, "body": ""}', r"byte 0: the field 'text' is not text; --column: "),
        ("a.jsonl", b'{"text": "a\\ud800"}', r"byte 0: the text has half a surrogate pair at character 1"),
        ("a.jsonl", b'{"text": "\xff"}', r"a\.jsonl, the line at byte 0: not JSON \(.*utf-8"),
        ("a.parquet", b"PAR1 this is none PAR1", r"a\.parquet is not a whole parquet file: "),
        ("a.txt", b"abc\xff", r"a\.txt is not UTF-8 text: byte 3 is 0xff; convert it"),
        ("a.json", b"{}", r"a\.json: what \.json holds is not clear; say --format parquet or jsonl or text"),
    ],
)
def test_unusable_files(name: str, content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UserError, match=message):
        read(tmp_path / name)


def test_columns_of_parquet(tmp_path: Path) -> None:
    path = as_parquet(["a", "b"], tmp_path / "a.parquet")
    with pytest.raises(UserError, match=r"a\.parquet: no column 'txt'; --column: did you mean 'text'\?"):
        read(path, column="txt")
    with pytest.raises(
        UserError, match=r"the column 'id' is of int64, not text; --column: expected one of text"
    ):
        read(path, column="id")


def test_a_parquet_file_with_damaged_pages(tmp_path: Path) -> None:
    path = as_parquet(TEXTS, tmp_path / "a.parquet", 1000)
    whole = path.read_bytes()
    begin = parquet.ParquetFile(path).metadata.row_group(0).column(1).dictionary_page_offset
    path.write_bytes(whole[:begin] + bytes(900) + whole[begin + 900 :])
    with pytest.raises(UserError, match=r"cannot read .*a\.parquet: "):
        read(path)


def test_a_parquet_file_whose_text_is_not_utf8(tmp_path: Path) -> None:
    column = pyarrow.array([b"abc", b"ab\xff"], pyarrow.binary()).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"text": column}), tmp_path / "a.parquet")
    with pytest.raises(
        UserError, match=r"a\.parquet, row 1 of row group 0 is not UTF-8 text: byte 2 is 0xff"
    ):
        read(tmp_path / "a.parquet")


def test_bad_text_in_a_later_slice_is_found_at_its_byte(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = bytearray(words(1, 1_500_000, "ab").encode())
    content[777_777] = 0xFF
    (tmp_path / "book.txt").write_bytes(content)
    monkeypatch.setattr(inputs, "UNIT_BYTES", 65536)
    with pytest.raises(UserError, match=r"book\.txt is not UTF-8 text: byte 777777 is 0xff"):
        read(tmp_path / "book.txt")
