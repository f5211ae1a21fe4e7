"""From text to tokens: bytes, a `tokenizer.json` of Hugging Face's tokenizers, or an encoding of tiktoken."""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from headcount.trainer.config import BYTE_VOCABULARY
from headcount.trainer.data.extras import optional
from headcount.trainer.data.shards import TOKEN_TYPES, Tokens, token_type
from headcount.trainer.errors import UserError, nearest

_SEPARATORS = ("<|endoftext|>", "<|end_of_text|>", "<|end▁of▁sentence|>", "<eos>", "</s>", "[SEP]")
"""What ends a document in the vocabularies we know of, tried in this order."""


Lengths = npt.NDArray[np.int64]


class Tokenizer(Protocol):
    """Special tokens in a text are taken as text; a document ends with `separator`."""

    name: str
    """In the manifest and the fingerprint: another name is another data set."""
    vocab_size: int
    separator: int

    def encode(self, text: bytes) -> Tokens:
        """Tokens of UTF-8 text, of the type `token_type(vocab_size)`."""
        ...

    def decode(self, tokens: Sequence[int]) -> bytes:
        """The text that the tokens stand for; cut between the tokens of a character, it is no UTF-8."""
        ...

    def byte_lengths(self) -> Lengths | None:
        """[vocab_size] bytes of text that each token stands for; None where that is not known."""
        ...


def load_tokenizer(spec: str, separator: str | None = None) -> Tokenizer:
    """`bytes`, `tiktoken:NAME`, or the path of a `tokenizer.json`. `separator`: a token's text.

    Raises `UserError` for a tokenizer that is unknown, unreadable or lacks the separator.
    """
    if spec == "bytes":
        if separator is not None:
            raise UserError("--separator: bytes are separated by NUL; leave it out")
        return _Bytes()
    if spec.startswith("tiktoken:"):
        return _Tiktoken(spec.removeprefix("tiktoken:"), separator)
    path = Path(spec).expanduser()
    if path.is_dir():
        path = path / "tokenizer.json"
    if path.suffix != ".json" and not path.exists():
        raise UserError(
            f"unknown tokenizer {spec!r}; expected bytes, tiktoken:NAME (such as tiktoken:gpt2), or the path "
            "of a tokenizer.json"
        )
    return _Json(path, separator)


class _Bytes:
    name, vocab_size, separator = "bytes", BYTE_VOCABULARY, 0

    def encode(self, text: bytes) -> Tokens:
        if 0 in text:
            raise UserError(f"byte {text.index(0)} is NUL, which separates documents of bytes")
        return np.frombuffer(text, np.uint8)

    def decode(self, tokens: Sequence[int]) -> bytes:
        return bytes(tokens)

    def byte_lengths(self) -> Lengths:
        return np.array([0] + [1] * 255)


class _Tiktoken:
    def __init__(self, name: str, separator: str | None) -> None:
        tiktoken = optional("tiktoken", "the tokenizer tiktoken:" + name)
        known = tiktoken.list_encoding_names()
        if name not in known:
            raise UserError(f"tiktoken has no encoding {name!r}; {nearest(name, known)}")
        try:
            self._encoding: Any = tiktoken.get_encoding(name)
        except OSError as error:
            raise UserError(
                f"cannot load tiktoken's encoding {name!r}: it is fetched from the network on first use, and "
                f"that failed ({type(error).__name__}); set TIKTOKEN_CACHE_DIR to a folder that holds it"
            ) from error
        special: dict[str, int] = self._encoding._special_tokens
        self.separator = _find_separator(separator, special, f"tiktoken:{name}")
        self.name = f"tiktoken:{name}"
        self.vocab_size = int(self._encoding.max_token_value) + 1
        self._type = TOKEN_TYPES[token_type(self.vocab_size)]

    def encode(self, text: bytes) -> Tokens:
        ids: Tokens = self._encoding.encode_to_numpy(text.decode("utf-8"), disallowed_special=())
        return ids.astype(self._type)

    def decode(self, tokens: Sequence[int]) -> bytes:
        text: bytes = self._encoding.decode_bytes(list(tokens))
        return text

    def byte_lengths(self) -> Lengths:
        lengths = np.zeros(self.vocab_size, dtype=np.int64)
        for content, token in self._encoding._mergeable_ranks.items():
            lengths[token] = len(content)
        return lengths


class _Json:
    def __init__(self, path: Path, separator: str | None) -> None:
        tokenizers = optional("tokenizers", f"the tokenizer {path}")
        try:
            content = path.read_bytes()
        except OSError as error:
            raise UserError(f"cannot read {path}: {error.strerror}") from error
        try:
            self._tokenizer: Any = tokenizers.Tokenizer.from_buffer(content)
        except Exception as error:  # its Rust side raises plain exceptions
            raise UserError(f"{path} is not a tokenizer.json of the tokenizers library: {error}") from error
        self._tokenizer.encode_special_tokens = True
        self._tokenizer.no_truncation()
        self._tokenizer.no_padding()
        vocabulary: dict[str, int] = self._tokenizer.get_vocab(with_added_tokens=True)
        self.separator = _find_separator(separator, vocabulary, str(path))
        self.name = f"tokenizer.json:{hashlib.sha256(content).hexdigest()}"
        self.vocab_size = max(vocabulary.values()) + 1
        self._type = TOKEN_TYPES[token_type(self.vocab_size)]

    def encode(self, text: bytes) -> Tokens:
        [encoding] = self._tokenizer.encode_batch_fast([text.decode("utf-8")], add_special_tokens=False)
        return np.array(encoding.ids, dtype=self._type)

    def decode(self, tokens: Sequence[int]) -> bytes:
        text: str = self._tokenizer.decode(list(tokens), skip_special_tokens=False)
        return text.encode()

    def byte_lengths(self) -> None:
        """Not known: its tokens may be normalised text."""


def _find_separator(given: str | None, vocabulary: dict[str, int], where: str) -> int:
    if given is not None:
        if given not in vocabulary:
            raise UserError(f"--separator: {where} has no token {given!r}; {_some(given, vocabulary)}")
        return vocabulary[given]
    for candidate in _SEPARATORS:
        if candidate in vocabulary:
            return vocabulary[candidate]
    raise UserError(f"{where} has none of {', '.join(_SEPARATORS)}; name its end of text with --separator")


def _some(given: str, vocabulary: dict[str, int]) -> str:
    hint = nearest(given, [token for token in vocabulary if len(token) > 2])
    return hint if hint.startswith("did you mean") else "expected a token of its vocabulary"
