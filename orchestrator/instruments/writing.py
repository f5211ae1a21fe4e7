"""Text by a trained model, in the tokens of the data set that it was trained on."""

import codecs
from collections.abc import Iterator
from pathlib import Path

import torch

from headcount.trainer.data.manifest import dataset_folder, read_manifest
from headcount.trainer.data.tokenizer import Tokenizer, load_tokenizer
from headcount.trainer.errors import UserError
from headcount.trainer.generation import generate
from headcount.trainer.job_files.model_file import load_model


def written(
    file: Path,
    prompt: str,
    home: Path,
    *,
    tokens: int,
    temperature: float = 0.0,
    seed: int = 0,
    tokenizer: str | None = None,
    device: str = "auto",
) -> Iterator[str]:
    """What the model in `file` writes after `prompt`, in whole characters as they come.

    tokenizer: the path of a `tokenizer.json`, where the data set has one. Raises `UserError` where it is
    another one, and as `generate` does.
    """
    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    model, metadata = load_model(file, device)
    words = tokenizer_of(metadata["headcount.fingerprint"], home, tokenizer)
    given = torch.from_numpy(words.encode(prompt.encode()).astype("int64")).to(device)
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    found: list[int] = []
    told = b""
    for token in generate(model, given.unsqueeze(0), tokens, temperature=temperature, seed=seed):
        found.append(int(token))
        text = words.decode(found)
        if not text.startswith(told):  # a decoder that looks back, as at spaces
            continue
        yield decoder.decode(text[len(told) :])
        told = text
    yield decoder.decode(b"", final=True)


def tokenizer_of(fingerprint: str, home: Path, given: str | None) -> Tokenizer:
    """The tokenizer of a data set in the home; `given` is the path of its `tokenizer.json`, where it has one.

    fingerprint: of the data set; empty for a pretrained model, which reads the tokens of the given one.
    Raises `UserError` where that is missing or another one.
    """
    if not fingerprint:
        if given is None:
            raise UserError(
                "the model was converted without --data; name its tokenizer.json with --tokenizer"
            )
        return load_tokenizer(given)
    name = read_manifest(dataset_folder(fingerprint, home)).tokenizer
    if not name.startswith("tokenizer.json:"):
        return load_tokenizer(name)
    if given is None:
        raise UserError("the model reads the tokens of a tokenizer.json; name that file with --tokenizer")
    words = load_tokenizer(given)
    if words.name != name:
        raise UserError(f"{given} is not the tokenizer of the model's data set, which is {name}")
    return words
