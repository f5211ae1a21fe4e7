"""The preset `english-docs`: English prose and code out of packages that Debian and PyPI ship.

Dictionaries, manuals and libraries' sources. Nothing of it comes with Headcount: the packages are fetched by
apt and pip, and the manifest names each with its version, licence and hash. The same packages give the same
fingerprint: documents are read in the order of their paths, paragraphs that were there before are dropped,
what is left is ordered by its hash, and the tokenizer is trained on the first of it.
"""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from headcount.trainer.data.building import build
from headcount.trainer.data.extras import optional
from headcount.trainer.data.files import replace_text, writing
from headcount.trainer.data.manifest import Manifest
from headcount.trainer.data.packages import Package, describe, fetch, members
from headcount.trainer.data.plain_text import plain_text
from headcount.trainer.data.workers import Recipe, Report

NAME = "english-docs"

DEBIAN = (
    *("dict-gcide", "dict-wn", "dict-foldoc", "dict-jargon", "dict-vera", "debian-policy"),
    *("manpages", "manpages-dev", "perl-doc", "git-doc", "python-django-doc", "cmake-doc", "sqlite3-doc"),
    *("bash-doc", "zsh-doc", "octave-doc", "maxima-doc", "r-doc-html", "exim4-doc-html", "bind9-doc"),
)
PYPI = (
    *("sympy==1.14.0", "django==5.2.8", "sqlalchemy==2.0.44", "networkx==3.5", "nltk==3.9.2"),
    *("twisted==25.5.0", "sphinx==8.2.3", "docutils==0.22.3", "setuptools==80.9.0", "babel==2.17.0"),
)

VOCABULARY = 16_384
SEPARATOR = "<|endoftext|>"

PIECE = 32 * 1024
"""Characters of a document at most, about: a dictionary is many documents, so that the order mixes it."""

LEAST = 200
"""Characters of a document: shorter ones are lists of names and stubs."""

_REPEATABLE = 100
"""Characters from which a paragraph that was there before is dropped: licences, notices, contents."""

_FILE_CHARACTERS = 16 * 2**20

_TRAINED_FILES = 2
"""Files of documents that the tokenizer is trained on: a sample, which so many tokens need no more of."""

_WAY = 1
"""Of reading and ordering: another one makes other documents of the same packages."""


@dataclass(frozen=True)
class Sources:
    """What the preset is made from."""

    debian: Sequence[str] = DEBIAN
    pypi: Sequence[str] = PYPI
    vocabulary: int = VOCABULARY


def build_english_docs(
    name: str,
    home: Path,
    sources: Sources = Sources(),
    *,
    workers: int = 0,
    replacing: bool = False,
    report: Report = lambda stage, done, total: None,
) -> tuple[Manifest, Path]:
    """Fetch, read and tokenise the packages, and register them as `name`: its manifest, and their listing.

    What was fetched is kept and used again, so that the preset stays the same until it is removed. Raises
    `UserError` for a package that cannot be fetched or read.
    """
    optional("tokenizers", f"the preset {NAME}")
    folder = home / "data" / "presets" / NAME
    listing = folder / "packages.json"
    with writing(home):
        files = fetch(sources.debian, sources.pypi, folder / "packages")
        packages = [describe(package, file, folder / "copyright") for package, file in files.items()]
        content = {
            "way": _WAY,
            "vocabulary": sources.vocabulary,
            "packages": [asdict(package) for package in packages],
        }
        if not _is_done(listing, content, folder):
            read = _read(files, packages, report)
            _write(_ordered(read), folder / "documents")
            report("training the tokenizer", 0, 1)
            _train_tokenizer(folder / "documents", folder / "tokenizer.json", sources.vocabulary)
            report("training the tokenizer", 1, 1)
            replace_text(listing, json.dumps(content, indent=2) + "\n")
    recipe = Recipe(tokenizer=str(folder / "tokenizer.json"), separator=SEPARATOR)
    entries = [str(folder / "documents")]
    manifest = build(name, entries, home, recipe, workers=workers, replacing=replacing, report=report)
    return manifest, listing


def _is_done(listing: Path, content: object, folder: Path) -> bool:
    try:
        same = bool(json.loads(listing.read_text(encoding="utf-8")) == content)
    except (OSError, ValueError):
        return False
    return same and (folder / "tokenizer.json").exists() and (folder / "documents").is_dir()


def _read(files: dict[str, Path], packages: Sequence[Package], report: Report) -> Iterator[str]:
    """The documents of all packages, less the paragraphs that earlier ones had."""
    seen: set[bytes] = set()
    for done, package in enumerate(packages):
        report("reading packages", done, len(packages))
        contents = list(members(files[package.name]))
        has_sources = any("/_sources/" in path for path, _ in contents)
        for path, content in contents:
            if has_sources and path.endswith(".html"):
                continue  # its source is here too
            text = plain_text(path, content)
            if text is not None:
                yield from pieces(_new_paragraphs(text, seen))
    report("reading packages", len(packages), len(packages))


def _new_paragraphs(text: str, seen: set[bytes]) -> Iterator[str]:
    for paragraph in re.split(r"\n(?:[ \t]*\n)+", text.strip("\n")):
        if len(paragraph) >= _REPEATABLE:
            key = hashlib.sha256(" ".join(paragraph.split()).encode()).digest()[:16]
            if key in seen:
                continue
            seen.add(key)
        yield paragraph


def pieces(paragraphs: Iterable[str]) -> Iterator[str]:
    """The paragraphs as documents of at most `PIECE` characters, or of one paragraph, less short ones."""
    gathered: list[str] = []
    size = 0
    for paragraph in (*paragraphs, None):
        if paragraph is None or (gathered and size + len(paragraph) > PIECE):
            if size >= LEAST:
                yield "\n\n".join(gathered) + "\n"
            gathered, size = [], 0
        if paragraph is not None:
            gathered.append(paragraph)
            size += len(paragraph)


def _ordered(documents: Iterable[str]) -> list[str]:
    """Each document once, in the order of hashes: as good as drawn, and the same everywhere."""
    by_hash = {hashlib.sha256(f"{NAME} {_WAY}\0{text}".encode()).digest(): text for text in documents}
    return [by_hash[key] for key in sorted(by_hash)]


def _write(documents: Iterable[str], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for earlier in folder.glob("*.jsonl"):
        earlier.unlink()
    lines: list[str] = []
    size = count = 0
    for document in (*documents, None):
        if document is None or size > _FILE_CHARACTERS:
            replace_text(folder / f"{count:03}.jsonl", "".join(lines))
            lines, size, count = [], 0, count + 1
        if document is not None:
            lines.append(json.dumps({"text": document}, ensure_ascii=False) + "\n")
            size += len(document)


def _train_tokenizer(documents: Path, file: Path, vocabulary: int) -> None:
    """Byte-level BPE, as GPT-2's."""
    tokenizers = optional("tokenizers", f"the preset {NAME}")
    models, trainers = optional("tokenizers.models", NAME), optional("tokenizers.trainers", NAME)
    byte_level = optional("tokenizers.pre_tokenizers", NAME).ByteLevel
    tokenizer = tokenizers.Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = byte_level(add_prefix_space=False)
    tokenizer.decoder = optional("tokenizers.decoders", NAME).ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=[SEPARATOR],
        initial_alphabet=sorted(byte_level.alphabet()),
        show_progress=False,
    )
    texts = (
        json.loads(line)["text"]
        for part in sorted(documents.glob("*.jsonl"))[:_TRAINED_FILES]
        for line in part.read_text(encoding="utf-8").splitlines()
    )
    tokenizer.train_from_iterator(texts, trainer)
    replace_text(file, tokenizer.to_str())
