import json
from dataclasses import replace
from pathlib import Path

import pytest

from headcount.trainer.data import Manifest
from headcount.trainer.data.manifest import read_manifest
from headcount.trainer.data.registration import register
from headcount.trainer.data.shards import Shard
from headcount.trainer.errors import UserError

MANIFEST = Manifest(
    *("f" * 64, "text", 256, 10, 2, 3, 9, 1),
    train=(Shard("train.bin", 10, "a" * 64),),
    validation=(Shard("validation.bin", 2, "b" * 64),),
)


def test_a_manifest_survives_json() -> None:
    assert Manifest.from_json(MANIFEST.to_json()) == MANIFEST


@pytest.mark.parametrize(
    "text",
    [
        '{"fingerprint": "f"}',
        "[]",
        "{",
        json.dumps({**json.loads(MANIFEST.to_json()), "later": 1}),
        json.dumps({**json.loads(MANIFEST.to_json()), "train": [{"file": "train.bin"}]}),
        json.dumps({**json.loads(MANIFEST.to_json()), "dtype": "int32"}),
    ],
)
def test_what_is_no_manifest(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a manifest|Expecting"):
        Manifest.from_json(text)


def test_a_type_of_token_that_we_do_not_read_is_named(tmp_path: Path) -> None:
    folder = tmp_path / MANIFEST.fingerprint
    folder.mkdir()
    (folder / "manifest.json").write_text(replace(MANIFEST, dtype="int32").to_json())
    stated = r"manifest\.json .*: not a manifest: its dtype is 'int32', none of uint8, uint16, uint32"
    with pytest.raises(UserError, match=f"{stated}; prepare it again"):
        read_manifest(folder)
    with pytest.raises(UserError, match=stated):
        register("numbers", [str(folder)], tmp_path)


def test_bytes_a_token_are_of_the_validation_side() -> None:
    assert MANIFEST.bytes_per_token == 0.5
    assert replace(MANIFEST, validation_bytes=None).bytes_per_token is None


def test_a_manifest_that_lists_no_shards_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / MANIFEST.fingerprint
    folder.mkdir()
    (folder / "manifest.json").write_text(replace(MANIFEST, train=()).to_json())
    with pytest.raises(UserError, match=r"manifest\.json does not list the train tokens; prepare it again"):
        read_manifest(folder)
