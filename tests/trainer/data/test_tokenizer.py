import hashlib
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tiktoken
import tokenizers
from texts import as_jsonl, sides, words

from headcount.trainer.config import JobConfig
from headcount.trainer.data import inputs, open_dataset
from headcount.trainer.data.building import build
from headcount.trainer.data.split import train_part
from headcount.trainer.data.tokenizer import load_tokenizer
from headcount.trainer.data.workers import Recipe
from headcount.trainer.errors import UserError
from headcount.trainer.events import Evaluation
from headcount.trainer.loop import train

TEXTS = [f"{words(n, 200)} <|endoftext|> naïve {n}" for n in range(60)]


@pytest.fixture(scope="session")
def bpe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A byte-level BPE of 400 tokens, as many `tokenizer.json` are, that would truncate and pad."""
    tokenizer = tokenizers.Tokenizer(tokenizers.models.BPE())
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>", "<|pad|>"],
        initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(TEXTS, trainer)
    tokenizer.enable_truncation(8)
    tokenizer.enable_padding(length=8, pad_token="<|pad|>", pad_id=1)
    path = tmp_path_factory.mktemp("tokenizer") / "tokenizer.json"
    tokenizer.save(str(path))
    return path


@pytest.fixture(scope="session")
def encoding(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An encoding of tiktoken's that needs no network: a plugin with pairs of letters."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "tiktoken_ext").mkdir()
    (folder / "tiktoken_ext" / "letters.py").write_text(
        "def letters():\n"
        "    ranks = {bytes([b]): b for b in range(256)} | {b'ab': 256, b'cd': 257, b'abcd': 258}\n"
        "    return dict(name='letters', pat_str=r'\\S+|\\s+', mergeable_ranks=ranks,\n"
        "                special_tokens={'<|endoftext|>': 300})\n"
        "ENCODING_CONSTRUCTORS = {'letters': letters}\n"
    )
    sys.path.insert(0, str(folder))
    tiktoken.registry.ENCODING_CONSTRUCTORS = None  # looked for again
    return "tiktoken:letters"


@pytest.mark.parametrize("kind", ["bpe", "encoding"])
def test_tokens_are_those_of_the_library_with_separators_and_nothing_special(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = str(request.getfixturevalue(kind))
    if kind == "encoding":  # also where the pool looks
        monkeypatch.setenv("PYTHONPATH", sys.path[0])
    monkeypatch.setattr(inputs, "UNIT_BYTES", 4096)
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    manifest = build("words", [str(path)], tmp_path, Recipe(tokenizer=spec))
    tokenizer = load_tokenizer(spec)
    documents = [_documents(side, tokenizer.separator) for side in sides(manifest, tmp_path)]
    decode = _decoder(spec)

    expected: tuple[list[str], list[str]] = ([], [])
    for text in TEXTS:
        content = text.encode()
        expected[train_part(len(content), hashlib.sha256(content).digest(), False) == 0].append(text)
    assert [[decode(document) for document in side] for side in documents] == list(expected)
    assert (manifest.dtype, manifest.vocab_size) == ("uint16", 400 if kind == "bpe" else 301)
    assert manifest.bytes == sum(len(text.encode()) for text in TEXTS)
    assert manifest.bytes_per_token == manifest.validation_bytes / manifest.validation_tokens
    assert 1 < manifest.bytes_per_token < 4


def _documents(tokens: list[int], separator: int) -> list[list[int]]:
    found: list[list[int]] = [[]]
    for token in tokens:
        if token == separator:
            found.append([])
        else:
            found[-1].append(token)
    assert found.pop() == []
    return found


def _decoder(spec: str):
    if spec.startswith("tiktoken:"):
        return tiktoken.get_encoding("letters").decode
    return tokenizers.Tokenizer.from_file(spec).decode


def test_large_texts_are_cut_between_characters(
    bpe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = words(3, 700_000, "Ā€𝄞")  # characters of 2, 3 and 4 bytes across every cut
    (tmp_path / "book.txt").write_bytes(text.encode())
    monkeypatch.setattr(inputs, "UNIT_BYTES", 3 * 64 * 1024)
    monkeypatch.setattr("headcount.trainer.data.parts.PIECE_BYTES", 10_001)
    manifest = build("book", [str(tmp_path / "book.txt")], tmp_path, Recipe(tokenizer=str(bpe)))
    train, validation = sides(manifest, tmp_path)
    decode = tokenizers.Tokenizer.from_file(str(bpe)).decode
    separator = load_tokenizer(str(bpe)).separator
    assert (train.pop(), validation.pop()) == (separator, separator)
    first, last = decode(train), decode(validation)
    assert first + last == text
    assert 0 <= len(text.encode()) * 19 // 20 // 65536 * 65536 - len(first.encode()) < 4


def test_byte_lengths_add_up_to_the_text(encoding: str) -> None:
    for tokenizer in (load_tokenizer(encoding), load_tokenizer("bytes")):
        lengths = tokenizer.byte_lengths()
        assert lengths is not None
        text = "abcd abxcd naïve".encode()
        tokens = np.append(tokenizer.encode(text), tokenizer.separator)
        assert lengths[tokens].sum() == len(text)


def test_a_tokenizer_is_known_by_its_content(bpe: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy.json"
    copy.write_bytes(bpe.read_bytes())
    assert load_tokenizer(str(copy)).name == load_tokenizer(str(bpe)).name
    assert load_tokenizer(str(bpe.parent)).name == load_tokenizer(str(bpe)).name
    changed = json.loads(bpe.read_text())
    changed["model"]["merges"].pop()
    copy.write_text(json.dumps(changed))
    assert load_tokenizer(str(copy)).name != load_tokenizer(str(bpe)).name


def test_another_separator(bpe: Path) -> None:
    assert load_tokenizer(str(bpe), "<|pad|>").separator == 1
    with pytest.raises(
        UserError, match=r"--separator: .*tokenizer\.json has no token '<\|pat\|>'; did you mean"
    ):
        load_tokenizer(str(bpe), "<|pat|>")
    with pytest.raises(UserError, match="--separator: bytes are separated by NUL"):
        load_tokenizer("bytes", "x")


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("gpt2", r"unknown tokenizer 'gpt2'; expected bytes, tiktoken:NAME"),
        ("tiktoken:gpt-2", r"tiktoken has no encoding 'gpt-2'; did you mean 'gpt2'\?"),
        ("none.json", r"cannot read none\.json: No such file or directory"),
    ],
)
def test_unknown_tokenizers(spec: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_tokenizer(spec)


def test_what_is_no_tokenizer(bpe: Path, tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text("{}")
    with pytest.raises(UserError, match=r"a\.json is not a tokenizer\.json of the tokenizers library"):
        load_tokenizer(str(tmp_path / "a.json"))
    plain = tokenizers.Tokenizer(tokenizers.models.WordLevel({"a": 0, "b": 1}, unk_token="a"))
    plain.save(str(tmp_path / "b.json"))
    with pytest.raises(UserError, match=r"b\.json has none of .*; name its end of text with --separator"):
        load_tokenizer(str(tmp_path / "b.json"))


def test_an_encoding_that_cannot_be_fetched(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    monkeypatch.setenv("HTTPS_PROXY", "http://127.0.0.1:9")
    with pytest.raises(UserError, match=r"cannot load tiktoken's encoding 'gpt2': .*set TIKTOKEN_CACHE_DIR"):
        load_tokenizer("tiktoken:gpt2")


@pytest.mark.parametrize(
    ("module", "code"),
    [
        ("tiktoken", "load_tokenizer('tiktoken:gpt2')"),
        ("tokenizers", "load_tokenizer('some.json')"),
        ("pyarrow", "cut_units(find_inputs(['some.parquet']), None)"),
        ("fsspec", "find_inputs(['memory://some.txt'])"),
    ],
)
def test_a_library_that_is_missing(module: str, code: str, tmp_path: Path) -> None:
    (tmp_path / "some.parquet").touch()
    program = (
        f"import sys; sys.modules[{module!r}] = None\n"
        "from headcount.trainer.data.tokenizer import load_tokenizer\n"
        "from headcount.trainer.data.inputs import cut_units, find_inputs\n"
        "from headcount.trainer.errors import UserError\n"
        f"try: {code}\nexcept UserError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path)
    assert f"needs {module}, which is not installed: pip install 'headcount[data]'" in done.stdout, (
        done.stderr
    )


def test_a_job_trains_on_tokens(bpe: Path, tmp_path: Path, small_job: Callable[..., JobConfig]) -> None:
    path = as_jsonl(TEXTS, tmp_path / "words.jsonl")
    manifest = build("words", [str(path)], tmp_path, Recipe(tokenizer=str(bpe)))
    config = small_job(model__vocab_size=manifest.vocab_size, data__source="words")
    events = list(train(config, open_dataset(manifest.fingerprint, tmp_path)))
    losses = [event.loss for event in events if isinstance(event, Evaluation)]
    assert losses[0] == pytest.approx(math.log(400), abs=0.05)
    assert losses[-1] < losses[0] - 0.3
    assert events[-1].outcome == "finished"


def test_tokens_are_decoded_to_their_text(bpe: Path, encoding: str) -> None:
    text = "abcd naïve\n ab".encode()
    for spec in ("bytes", str(bpe), encoding):
        tokenizer = load_tokenizer(spec)
        assert tokenizer.decode(tokenizer.encode(text).tolist()) == text
