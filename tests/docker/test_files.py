"""What the images, the compose file and the cluster files say agrees with the code and with each other."""

import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
import ray
import yaml
from ray.autoscaler._private.util import prepare_config, validate_config
from ray.scripts.scripts import cli as ray_cli

from headcount.__main__ import cli
from headcount.api.service import DEFAULT_PORT, GRACE_SECONDS
from headcount.orchestrator.artifacts.address import address_problem
from headcount.orchestrator.scheduling.scheduler import STOP_SECONDS
from headcount.orchestrator.settings import VARIABLES

ROOT = Path(__file__).parents[2]
DOCKER = ROOT / "docker"
RAY_PORT = "6379"
PLACES = [
    *DOCKER.rglob("*.yaml"),
    *DOCKER.rglob("*.service"),
    DOCKER / "systemd/environment.example",
    *DOCKER.rglob("*.sbatch"),
    DOCKER / "Dockerfile",
]


def compose() -> Any:
    return yaml.safe_load((DOCKER / "compose.yaml").read_text())


def kubernetes() -> list[Any]:
    files = sorted((DOCKER / "kubernetes/base").glob("*.yaml"))
    return [resource for file in files for resource in yaml.safe_load_all(file.read_text())]


def lists_of_words(node: Any) -> Iterator[list[str]]:
    """Every list of text in a tree: commands are among them."""
    if isinstance(node, list) and node and all(isinstance(word, str) for word in node):
        yield node
    for part in node.values() if isinstance(node, dict) else node if isinstance(node, list) else ():
        yield from lists_of_words(part)


def commands() -> list[tuple[str, ...]]:
    """Every call of `headcount` and `ray` in the files, as words."""
    found = []
    texts = [file.read_text() for file in PLACES if file.suffix != ".yaml"]
    texts += re.findall(r"^```sh$(.*?)^```$", (DOCKER / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    for tree in [compose(), kubernetes(), yaml.safe_load((DOCKER / "cluster.yaml").read_text())]:
        for words in lists_of_words(tree):
            found.append(words[words[0] == "CMD" :])
            texts += words
    for text in texts:
        text = re.sub(r"\\\n\s*", " ", re.sub(r"(^|\s)#.*", "", text))
        for call in re.findall(r"(?:^|(?<!-n)[ \t/])((?:headcount|ray) [a-z][^;&|>\n]*)", text, re.MULTILINE):
            found.append(shlex.split(re.sub(r"\$\$?\w+", "1", call.removesuffix(" 2"))))
        found += [yaml.safe_load(words) for words in re.findall(r'CMD (\["(?:headcount|ray)".*\])', text)]
    calls = {tuple(words) for words in found if words[0] in ("headcount", "ray") and len(words) > 1}
    return sorted(calls)


def test_the_commands_are_found() -> None:
    starts = {words[:2] for words in commands()}
    assert starts == {
        ("headcount", "data"),
        ("headcount", "db"),
        ("headcount", "run"),
        ("headcount", "scheduler"),
        ("headcount", "serve"),
        ("headcount", "status"),
        ("headcount", "token"),
        ("ray", "health-check"),
        ("ray", "start"),
        ("ray", "stop"),
    }


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_command_can_be_parsed(words: tuple[str, ...]) -> None:
    command: click.Command = cli if words[0] == "headcount" else ray_cli
    rest = list(words[1:])
    while isinstance(command, click.Group):
        found = command.get_command(click.Context(command), rest[0])
        assert found is not None, rest[0]
        command, rest = found, rest[1:]
    command.make_context(command.name, rest)  # raises for an unknown option or argument


def test_every_variable_is_one_that_headcount_or_ray_reads() -> None:
    known = {*VARIABLES.values(), *(f"{name}_FILE" for name in VARIABLES.values())}
    known |= {"HEADCOUNT_LOG_FORMAT", "HEADCOUNT_METRICS_PORT"}
    for file in PLACES:
        assert set(re.findall(r"\bHEADCOUNT_\w+", file.read_text())) <= known, file


def test_the_service_has_one_port_everywhere() -> None:
    for file in PLACES:
        ports = set(re.findall(r"\b83\d\d\b", file.read_text()))
        assert ports <= {str(DEFAULT_PORT)}, file
    assert compose()["services"]["api"]["ports"] == [f"127.0.0.1:{DEFAULT_PORT}:{DEFAULT_PORT}"]


def test_ray_has_one_address() -> None:
    services = compose()["services"]
    assert services["scheduler"]["environment"]["RAY_ADDRESS"] == f"ray-head:{RAY_PORT}"
    assert f"--port={RAY_PORT}" in services["ray-head"]["command"]
    text = (DOCKER / "kubernetes/base/kustomization.yaml").read_text()
    (cluster,) = [r for r in kubernetes() if r["kind"] == "RayCluster"]
    assert f"RAY_ADDRESS={cluster['metadata']['name']}-head-svc:{RAY_PORT}" in text


def test_each_image_is_built_by_one_service() -> None:
    """Where two services build one image, both write it at once, and the first build on a machine fails."""
    services = compose()["services"].values()
    built = [service["image"] for service in services if "build" in service]
    assert sorted(built) == sorted({s["image"] for s in services if s["image"].startswith("headcount-")})


def test_what_is_stopped_has_the_time_that_it_takes() -> None:
    docker_waits = 10
    services = compose()["services"]
    pods = {
        r["metadata"]["name"]: r["spec"]["template"]["spec"]
        for r in kubernetes()
        if r["kind"] == "Deployment"
    }
    for name, seconds in (("scheduler", STOP_SECONDS), ("api", GRACE_SECONDS)):
        assert int(services[name].get("stop_grace_period", f"{docker_waits}s").removesuffix("s")) > seconds
        assert pods[name]["terminationGracePeriodSeconds"] > seconds
        unit = (DOCKER / f"systemd/headcount-{name}.service").read_text()
        (waits,) = re.findall(r"^TimeoutStopSec=(\d+)$", unit, re.MULTILINE)
        assert int(waits) > seconds


def ray_groups() -> list[Any]:
    """Head and workers of the RayCluster."""
    (cluster,) = [r for r in kubernetes() if r["kind"] == "RayCluster"]
    return [cluster["spec"]["headGroupSpec"], *cluster["spec"]["workerGroupSpecs"]]


def test_kubernetes_asks_ray_at_a_port_that_it_opens() -> None:
    """KubeRay's own probes need the extra `ray[default]`, which the images do not have."""
    head, workers = ray_groups()
    for group, port in ((head, RAY_PORT), (workers, workers["rayStartParams"]["node-manager-port"])):
        (container,) = group["template"]["spec"]["containers"]
        for probe in ("readinessProbe", "livenessProbe"):
            assert container[probe]["tcpSocket"]["port"] == int(port)


def test_every_container_of_kuberay_is_given_the_configuration() -> None:
    (kustomization,) = [r for r in kubernetes() if r["kind"] == "Kustomization"]
    assert kustomization["generatorOptions"]["disableNameSuffixHash"] is True, (
        "a RayCluster names the map itself"
    )
    (made,) = kustomization["configMapGenerator"]
    variables = dict(line.split("=", 1) for line in made["literals"])
    of_the_token = {name: value for name, value in variables.items() if name.startswith("RAY_AUTH_")}
    for group in ray_groups():
        (container,) = group["template"]["spec"]["containers"]
        assert container["envFrom"] == [{"configMapRef": {"name": made["name"]}}]
        # KubeRay copies these alone into the container that waits for the head
        assert {one["name"]: one["value"] for one in container["env"]} == of_the_token


def test_the_ray_of_kubernetes_is_the_one_that_is_installed() -> None:
    (cluster,) = [r for r in kubernetes() if r["kind"] == "RayCluster"]
    assert cluster["spec"]["rayVersion"] == ray.__version__
    assert f"ray=={ray.__version__}" in (ROOT / "constraints.txt").read_text().splitlines()


def test_nobody_is_root() -> None:
    recipe = (DOCKER / "Dockerfile").read_text()
    user = re.search(r"useradd --system --uid (\d+)", recipe)
    assert user is not None
    assert re.findall(r"^USER (.+)$", recipe, re.MULTILINE) == [user[1], user[1]]
    base = "".join(file.read_text() for file in (DOCKER / "kubernetes/base").glob("*.yaml"))
    assert set(re.findall(r"(?:runAsUser|fsGroup): (\d+)", base)) == {user[1]}


def test_the_build_sees_every_file_of_the_wheel_and_nothing_private() -> None:
    ignored, *kept = [
        line for line in (ROOT / ".dockerignore").read_text().splitlines() if line and line[0] != "#"
    ]
    assert ignored == "*"
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    folders = {name.split(".")[1] for name in project["tool"]["setuptools"]["packages"] if "." in name}
    files = {"LICENSE", "README.md", "__init__.py", "__main__.py", "py.typed", "pyproject.toml"}
    assert {line[1:] for line in kept if line[0] == "!"} == folders | files | {"constraints.txt"}


def test_the_extras_of_the_images_exist() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = re.findall(r"headcount-\*\.whl\)\[(.+)\]", (DOCKER / "Dockerfile").read_text())
    assert len(extras) == 2
    assert {e for words in extras for e in words.split(",")} <= set(
        project["project"]["optional-dependencies"]
    )


def test_every_secret_of_the_compose_file_is_made_once(tmp_path: Path) -> None:
    (tmp_path / "secrets").mkdir()
    script = tmp_path / "make-secrets.sh"
    script.write_bytes((DOCKER / "make-secrets.sh").read_bytes())
    subprocess.run(["sh", str(script)], check=True)
    first = {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()}
    subprocess.run(["sh", str(script)], check=True)
    assert {file.name: file.read_text() for file in (tmp_path / "secrets").iterdir()} == first
    declared = compose()["secrets"]
    assert {name: f"secrets/{name}" for name in first} == {n: s["file"] for n, s in declared.items()}
    assert f":{first['postgres_password'].strip()}@postgres/" in first["database_url"]
    used = {name for service in compose()["services"].values() for name in service["secrets"]}
    assert used == set(declared)


def test_the_file_for_a_bucket_changes_services_that_are_there() -> None:
    more = yaml.safe_load((DOCKER / "compose.s3.yaml").read_text())
    services = compose()["services"]
    using = {name for name, service in services.items() if "RAY_ADDRESS" in service.get("environment", {})}
    assert set(more["services"]) == using - {"upgrade"}
    (secret,) = more["secrets"]
    for service in more["services"].values():
        assert service["secrets"] == [secret]
        assert service["environment"]["AWS_SHARED_CREDENTIALS_FILE"] == f"/run/secrets/{secret}"
        assert address_problem(service["environment"]["HEADCOUNT_ARTIFACTS"]) is None
    images = re.findall(r"headcount-\*\.whl\)\[(.+)\]", (DOCKER / "Dockerfile").read_text())
    assert all("s3" in extras.split(",") for extras in images)


def test_every_volume_secret_and_service_that_kubernetes_names_is_declared() -> None:
    declared = {
        (r["kind"], r["metadata"]["name"]) for r in kubernetes() if r and r["kind"] != "Kustomization"
    }
    text = str(kubernetes())
    assert {("PersistentVolumeClaim", n) for n in re.findall(r"'claimName': '(\w+)'", text)} <= declared
    secrets = set(re.findall(r"'secretName': '([\w-]+)'", text)) - {"headcount-tls"}  # the ingress's own
    assert {("Secret", name) for name in secrets} <= declared
    (ingress,) = [r for r in kubernetes() if r["kind"] == "Ingress"]
    backend = ingress["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    assert ("Service", backend["name"]) in declared


def test_kubernetes_hands_over_the_same_secrets_as_compose() -> None:
    (secret,) = [r for r in kubernetes() if r["kind"] == "Secret"]
    assert set(secret["stringData"]) == set(compose()["secrets"])


def test_ray_takes_the_cluster_file() -> None:
    validate_config(prepare_config(yaml.safe_load((DOCKER / "cluster.yaml").read_text())))
