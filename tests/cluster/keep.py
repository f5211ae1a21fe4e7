"""The cluster of network namespaces, kept up to be looked at and broken: `make cluster`, as root."""

import queue
import shlex
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

from cluster.services import PLACES, Topology
from forwarding import Forward

from headcount.api.service import DEFAULT_PORT

HELP = """\
hosts             what runs where
on HOST COMMAND   a command on a host, such as: on scheduler headcount status
log HOST          what its service printed last
cut HOST          pull its cable; join HOST plugs it in again
kill HOST         take its power; start HOST brings it back
quit              or Ctrl-D: everything goes"""

LOG_LINES = 20


def main() -> None:
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    with tempfile.TemporaryDirectory(prefix="headcount-cluster-") as folder:
        print("bringing up", end="", flush=True)
        topology = Topology(Path(folder))
        try:
            token = topology.start_all(lambda name: print(f" {name}", end="", flush=True))
            print()
            with _published(topology.host("api").address) as service:
                print(_hosts(topology))
                print("\nIn another terminal:\n")
                print(f"export HEADCOUNT_URL=http://127.0.0.1:{service.port} HEADCOUNT_TOKEN={token}\n")
                print(f"Here:\n\n{HELP}\n", flush=True)
                _listen(topology)
        except KeyboardInterrupt:
            print()
        finally:
            topology.close()


def _published(address: str) -> Forward:
    """The service's port on this machine, as the compose file publishes it, or a free one."""
    try:
        return Forward((address, DEFAULT_PORT), DEFAULT_PORT)
    except OSError:
        return Forward((address, DEFAULT_PORT))


def _listen(topology: Topology) -> None:
    """Do what is typed, and start again meanwhile what ends."""
    typed: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Thread(target=_read, args=(typed,), daemon=True).start()
    while True:
        print("cluster> ", end="", flush=True)
        while typed.empty():
            topology.tend()
            time.sleep(0.2)
        line = typed.get()
        if not line or line.strip() == "quit":
            return
        try:
            print(_answer(topology, shlex.split(line)) or "", flush=True)
        except (
            ValueError,
            subprocess.TimeoutExpired,
        ) as error:  # an open quote, or a command that does not end
            print(error, flush=True)


def _read(typed: "queue.SimpleQueue[str]") -> None:
    """Take the lines as they come, and last an empty text."""
    for line in sys.stdin:
        typed.put(line)
    typed.put("")


def _answer(topology: Topology, words: list[str]) -> str | None:
    hosts = topology.network.hosts
    if len(words) > 1 and words[1] not in hosts:
        return f"no host {words[1]!r}; there are {', '.join(hosts)}"
    match words:
        case ["hosts"]:
            return _hosts(topology)
        case ["on", host, *command] if command:
            done = topology.run(host, *command)
            return (done.stdout + done.stderr).rstrip()
        case ["log", host]:
            file = topology.folder / f"{host}.log"
            lines = file.read_text().splitlines() if file.exists() else []
            return "\n".join(lines[-LOG_LINES:])
        case ["cut", host]:
            hosts[host].cut()
        case ["join", host]:
            hosts[host].join()
        case ["kill", host] if topology.is_up(host):
            topology.kill(host)
        case ["start", host] if host in PLACES and not topology.is_up(host):
            topology.start(host)
        case _:
            return HELP
    return None


def _hosts(topology: Topology) -> str:
    lines = []
    for name, host in topology.network.hosts.items():
        state = "" if name not in PLACES else "up" if topology.is_up(name) else "down"
        lines.append(f"{name:12}{host.address:16}{PLACES.get(name, 'nothing'):12}{state}")
    return "\n".join(lines)


if __name__ == "__main__":
    main()
