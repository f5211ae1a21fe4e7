from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from random_checkpoints import write_checkpoint


@pytest.fixture(autouse=True, scope="session")
def _no_code_in_the_users_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Where transformers puts the code that a folder brings."""
    with pytest.MonkeyPatch.context() as patch:
        modules = str(tmp_path_factory.mktemp("modules"))
        patch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", modules)
        yield


@pytest.fixture(scope="session")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a checkpoint by its name; not to be written to."""
    made: dict[str, Path] = {}

    def make(name: str) -> Path:
        if name not in made:
            made[name] = write_checkpoint(tmp_path_factory.mktemp(name), name)
        return made[name]

    return make
