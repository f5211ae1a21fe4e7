"""The preset `english-docs` on packages made here: what is read, what is dropped, the same set again."""

import json
import shutil
import subprocess
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from headcount.trainer.commands import data
from headcount.trainer.data.english_docs import (
    NAME,
    PIECE,
    Sources,
    build_english_docs,
    pieces,
)
from headcount.trainer.data.manifest import Manifest, dataset_folder
from headcount.trainer.data.packages import fetch
from headcount.trainer.data.shards import map_shard
from headcount.trainer.data.tokenizer import load_tokenizer
from headcount.trainer.errors import UserError

SOURCES = Sources(debian=("words-doc",), pypi=("lines==1.2",), vocabulary=400)

NOTICE = (
    "Permission is granted to everyone to read these lines, and to count them, as often as they like.\n" * 2
)


def write_packages(folder: Path) -> None:
    """A Debian package with a manual, a dictionary and a page, and a wheel with two modules."""
    root = folder.parent / "root"
    files = {
        "DEBIAN/control": "Package: words-doc\nVersion: 3.1-2\nArchitecture: all\nMaintainer: a <a@b.c>\n"
        "Description: words\n",
        "usr/share/doc/words-doc/copyright": "Format: 1.0\n\nLicense: GPL-2+\n words\n\nLicense: MIT\n",
        "usr/share/doc/words-doc/words.txt": "\n\n".join(
            f"word {n}: {'it means ' * 40}{n}" for n in range(300)
        ),
        "usr/share/doc/words-doc/notice.txt": NOTICE * 2 + "\n\nwhat else there is to say of words\n" * 8,
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    folder.mkdir(parents=True)
    command = [
        "dpkg-deb",
        "--build",
        "--root-owner-group",
        str(root),
        str(folder / "words-doc_3.1-2_all.deb"),
    ]
    subprocess.run(command, check=True, capture_output=True)
    with zipfile.ZipFile(folder / "lines-1.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr(
            "lines-1.2.dist-info/METADATA", "Name: lines\nVersion: 1.2\nLicense-Expression: BSD-3-Clause\n"
        )
        for module in ("one", "two"):
            lines = "\n\n".join(f"def line_{n}():\n    return {n}" for n in range(60))
            wheel.writestr(f"lines/{module}.py", f'"""{NOTICE * 2}"""\n\n{lines}\n\nNAME = "{module}"\n')


def packages_of(home: Path) -> Path:
    return home / "data" / "presets" / NAME / "packages"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("home")
    write_packages(packages_of(folder))
    return folder


@pytest.fixture(scope="module")
def built(home: Path) -> tuple[Manifest, Path]:
    return build_english_docs(NAME, home, SOURCES, workers=1)


def text_of(manifest: Manifest, home: Path) -> list[str]:
    """The documents of both sides, decoded."""
    folder = dataset_folder(manifest.fingerprint, home)
    tokenizer = load_tokenizer(str(home / "data" / "presets" / NAME / "tokenizer.json"), "<|endoftext|>")
    shards = [*manifest.train, *manifest.validation]
    tokens = np.concatenate([map_shard(folder / s.file, s.tokens, manifest.dtype, 0) for s in shards])
    ends = np.flatnonzero(tokens == tokenizer.separator)
    starts = [0, *(ends[:-1] + 1)]
    return [tokenizer.decode(tokens[a:b].tolist()).decode() for a, b in zip(starts, ends, strict=True)]


def test_prose_and_code_are_read_once_each(built: tuple[Manifest, Path], home: Path) -> None:
    manifest, _ = built
    documents = text_of(manifest, home)
    whole = "".join(documents)
    assert manifest.vocab_size == 400
    assert all(f"word {n}: it means" in whole for n in range(300))
    assert whole.count("def line_7():") == 2  # short paragraphs are not dropped
    assert whole.count("Permission is granted") == 8  # twice four times: the second module's were there
    assert max(map(len, documents)) <= PIECE + 400


def test_the_packages_are_named_with_version_licence_and_hash(
    built: tuple[Manifest, Path], home: Path
) -> None:
    listed = json.loads(built[1].read_text())["packages"]
    assert [(p["origin"], p["name"], p["version"], p["licence"]) for p in listed] == [
        ("debian", "words-doc", "3.1-2", "GPL-2+, MIT"),
        ("pypi", "lines", "1.2", "BSD-3-Clause"),
    ]
    assert {len(p["sha256"]) for p in listed} == {64}
    copyright_text = (built[1].parent / "copyright" / "words-doc.txt").read_text()
    assert copyright_text.startswith("Format: 1.0")


def test_the_same_packages_are_the_same_fingerprint(
    built: tuple[Manifest, Path], home: Path, tmp_path: Path
) -> None:
    shutil.copytree(packages_of(home), packages_of(tmp_path))
    assert build_english_docs(NAME, tmp_path, SOURCES, workers=1)[0] == built[0]
    at_once = build_english_docs(NAME, home, SOURCES, workers=1)
    assert at_once == built


def test_long_texts_are_cut_between_paragraphs_and_short_ones_left_out() -> None:
    paragraphs = ["a" * 20_000, "b" * 20_000, "c" * 40_000, "d" * 100]
    assert [piece[0] for piece in pieces(paragraphs)] == ["a", "b", "c"]
    assert list(pieces(["e" * 150, "f" * 150])) == ["e" * 150 + "\n\n" + "f" * 150 + "\n"]


def test_what_cannot_be_fetched_or_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "packages"
    folder.mkdir()
    (folder / "lines-1.2-py3-none-any.whl").write_bytes(b"torn")
    (folder / "lines-1.2-py2-none-any.whl").write_bytes(b"another")
    with pytest.raises(UserError, match=r"holds 2 files named lines-1\.2-\*\.whl; expected one"):
        fetch((), ("lines==1.2",), folder)
    (folder / "lines-1.2-py2-none-any.whl").unlink()
    shutil.copytree(folder, packages_of(tmp_path))
    with pytest.raises(UserError, match=r"lines-1\.2-py3-none-any\.whl is not a whole wheel; remove it"):
        build_english_docs(NAME, tmp_path, Sources((), ("lines==1.2",)))
    with pytest.raises(UserError, match="apt-get download no-such-package-as-this: E: "):
        fetch(("no-such-package-as-this",), (), folder)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["words"], "expected NAME FILE..., or --preset english-docs"),
        (["words", "a.txt", "--preset", "english-docs"], "a preset has files of its own"),
    ],
)
def test_the_command_takes_files_or_a_preset(arguments: list[str], message: str) -> None:
    done = CliRunner().invoke(data, ["prepare", *arguments])
    assert done.exit_code == 2
    assert message in done.output
