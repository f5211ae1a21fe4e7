"""Running the service: the address is ours before anything else starts, and a stop waits for no stream."""

import errno
import socket
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn
from fastapi import FastAPI

from headcount.api.security import LOOPBACK_HOSTS, Access
from headcount.trainer.errors import UserError

DEFAULT_PORT = 8321
GRACE_SECONDS = 10
"""How long a stop waits for answers under way."""


class _Server(uvicorn.Server):
    """Tells the application's live streams to end as soon as a signal to stop arrives."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.streams.stopping = True
        super().handle_exit(sig, frame)


def listen(host: str, port: int, *, insecure: bool = False) -> socket.socket:
    """A listening socket at the address; port 0 takes a free one.

    Raises `UserError` for an address that is in use or not this machine's, and for one that others can reach
    unless `insecure` says that they may.
    """
    if host not in LOOPBACK_HOSTS and not insecure:
        raise UserError(
            f"--host {host} would let other machines read and submit sweeps without a password; "
            "use 127.0.0.1 and a tunnel, or add --insecure if only trusted machines can reach it"
        )
    try:
        (family, kind, _, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        server = socket.socket(family, kind)
    except OSError as error:
        raise UserError(f"cannot listen at {host}: {error.strerror}") from error
    server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        server.bind(address)
        server.listen(2048)
    except OSError as error:
        server.close()
        used = error.errno == errno.EADDRINUSE
        reason = "it is in use; choose another with --port" if used else error.strerror
        raise UserError(f"cannot listen at {host} port {port}: {reason}") from error
    return server


def serve(
    make_app: Callable[[Access], FastAPI],
    *,
    host: str = "127.0.0.1",
    port: int = DEFAULT_PORT,
    allowed_hosts: Sequence[str] = (),
    insecure: bool = False,
    announce: Callable[[str], None] = print,
) -> None:
    """Answer at an address until a signal to stop; `announce` is told the URL once it is open.

    The application is made after the address is ours. Requests may name the loopback interface, `host` and
    `allowed_hosts`. Raises `UserError` as `listen` does.
    """
    server = listen(host, port, insecure=insecure)
    try:
        app = make_app(Access(hosts=tuple(dict.fromkeys((*LOOPBACK_HOSTS, host, *allowed_hosts)))))
        config = uvicorn.Config(
            app,
            log_level="warning",
            proxy_headers=False,
            server_header=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
        )
        name = f"[{host}]" if ":" in host else host
        announce(f"http://{name}:{server.getsockname()[1]}/")
        _Server(config).run(sockets=[server])
    finally:
        server.close()
