"""What a data set is and where it lies: the manifest beside its tokens, and the folders under the home."""

import json
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path

from headcount.trainer.data.shards import TOKEN_TYPES, Shard, check_size
from headcount.trainer.errors import UserError

MANIFEST_FILE = "manifest.json"


@dataclass(frozen=True)
class Manifest:
    """What a data set is. The fingerprint is of its tokens alone: the same text is the same data set."""

    fingerprint: str
    name: str
    vocab_size: int
    train_tokens: int
    validation_tokens: int
    documents: int | None
    """After exact duplicates and empty ones were dropped; None where only tokens were registered."""
    bytes: int | None
    """Of the text of those documents; None where only tokens were registered and their text is unknown."""
    validation_bytes: int | None = None
    """Of `bytes`, those on the validation side: nats a token become bits a byte by them."""
    tokenizer: str = "bytes"
    dtype: str = "uint8"
    header: int = 0
    """Bytes before the tokens of each shard."""
    train: tuple[Shard, ...] = ()
    validation: tuple[Shard, ...] = ()

    @property
    def bytes_per_token(self) -> float | None:
        """Of the validation side, separators counted as tokens. Bits a byte = nats a token / ln 2 / this."""
        return self.validation_bytes / self.validation_tokens if self.validation_bytes else None

    def to_json(self) -> str:
        return json.dumps(asdict(self), indent=2) + "\n"

    @classmethod
    def from_json(cls, text: str) -> "Manifest":
        """Raises ValueError unless `text` holds exactly a manifest's fields, its type of token known."""
        values = json.loads(text)
        names = {f.name for f in fields(cls)}
        required = {f.name for f in fields(cls) if f.default is MISSING}
        if not isinstance(values, dict) or not required <= values.keys() <= names:
            raise ValueError("not a manifest")
        known = tuple(TOKEN_TYPES)
        if values.get("dtype", "uint8") not in known:
            raise ValueError(f"not a manifest: its dtype is {values['dtype']!r}, none of {', '.join(known)}")
        for side in ("train", "validation"):
            try:
                values[side] = tuple(Shard(**shard) for shard in values.get(side, ()))
            except TypeError as error:
                raise ValueError("not a manifest") from error
        return cls(**values)


def dataset_folder(fingerprint: str, home: Path) -> Path:
    return home / "data" / fingerprint


def read_manifest(folder: Path) -> Manifest:
    """The manifest in `folder`. Raises `UserError` where it or a shard is missing or of another size."""
    try:
        manifest = Manifest.from_json((folder / MANIFEST_FILE).read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"no data set in {folder}; prepare it on this machine") from error
    except ValueError as error:
        raise UserError(f"{folder / MANIFEST_FILE} cannot be read: {error}; prepare it again") from error
    if manifest.fingerprint != folder.name:
        raise UserError(f"{folder} holds the data set {manifest.fingerprint}; prepare it again")
    for side, tokens in (("train", manifest.train_tokens), ("validation", manifest.validation_tokens)):
        shards: tuple[Shard, ...] = getattr(manifest, side)
        if sum(shard.tokens for shard in shards) != tokens:
            raise UserError(f"{folder / MANIFEST_FILE} does not list the {side} tokens; prepare it again")
        for shard in shards:
            check_size(folder / shard.file, shard.tokens, manifest.dtype, manifest.header)
    return manifest


def is_complete(folder: Path) -> bool:
    """Whether `folder` holds a data set whose shards are all there."""
    try:
        read_manifest(folder)
    except UserError:
        return False
    return True
