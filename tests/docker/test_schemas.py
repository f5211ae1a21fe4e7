"""The files for containers and clusters hold to the published rules of the tools that read them."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

pytestmark = pytest.mark.cluster

DOCKER = Path(__file__).parents[2] / "docker"
BIN = Path(sys.executable).parent


def check(program: str, *arguments: object) -> None:
    done = subprocess.run([BIN / program, *map(str, arguments)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_dockerfile_is_clean() -> None:
    check("hadolint", DOCKER / "Dockerfile")


def test_the_scripts_are_clean() -> None:
    check("shellcheck", DOCKER / "make-secrets.sh", DOCKER / "slurm/headcount.sbatch")


def test_the_compose_file_follows_the_compose_specification() -> None:
    files = sorted(DOCKER.glob("compose*.yaml"))
    assert len(files) == 2
    check("check-jsonschema", "--builtin-schema", "vendor.compose-spec", *files)


def test_kubernetes_would_take_every_resource_of_its_own_kinds() -> None:
    files = sorted((DOCKER / "kubernetes/base").glob("*.yaml"))
    own = [file for file in files if file.name not in ("kustomization.yaml", "ray.yaml")]
    assert len(own) == len(files) - 2
    check("kubernetes-validate", "--strict", *own)


@pytest.mark.parametrize("overlay", ["cpu", "gpu"])
def test_an_overlay_changes_what_is_there(overlay: str) -> None:
    """Each patch's path leads to something in the base, or adds one name to it."""
    text = (DOCKER / "kubernetes/overlays" / overlay / "kustomization.yaml").read_text()
    (patch,) = yaml.safe_load(text)["patches"]
    cluster = yaml.safe_load((DOCKER / "kubernetes/base/ray.yaml").read_text())
    assert patch["target"] == {"kind": cluster["kind"], "name": cluster["metadata"]["name"]}
    for change in yaml.safe_load(patch["patch"]):
        *way, last = [part.replace("~1", "/") for part in change["path"].split("/")[1:]]
        node: Any = cluster
        for part in way:
            node = node[int(part) if isinstance(node, list) else part]
        assert (last in node) == (change["op"] == "replace"), json.dumps(change)
