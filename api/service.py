"""Running the service: the address is ours before anything else starts, and a stop waits for no stream."""

import errno
import ipaddress
import os
import re
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass
from types import FrameType

import uvicorn
from fastapi import FastAPI

from headcount.api import collecting
from headcount.api.security import LOOPBACK_HOSTS, Access
from headcount.api.workers import run_workers
from headcount.trainer.errors import UserError

DEFAULT_PORT = 8321
SWITCH_SECONDS = 0.001
"""For which a thread that computes may keep the interpreter from one that answers."""

GRACE_SECONDS = 8
"""How long a stop waits for answers under way: supervisors end what takes longer than 10 s."""


class _Server(uvicorn.Server):
    """Tells the application's live streams to end as soon as a signal to stop arrives."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._parent = os.getppid()
        self._asked = 0

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        app = self.config.app
        assert isinstance(app, FastAPI)
        app.state.streams.stopping = True
        super().handle_exit(sig, frame)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        collecting.begin()

    async def on_tick(self, counter: int) -> bool:
        """Whether to end: also where the process is gone that started this one."""
        app = self.config.app
        assert isinstance(app, FastAPI)
        asked = self.server_state.total_requests
        if asked != self._asked and not app.state.answers.busy:
            self._asked = asked
            collecting.collect()
        return await super().on_tick(counter) or os.getppid() != self._parent


def listen(host: str, port: int) -> socket.socket:
    """A listening socket at the address; port 0 takes a free one.

    Raises `UserError` for an address that is in use or not this machine's.
    """
    try:
        (family, kind, protocol, _, address), *_ = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        # asyncio sends small parts at once (TCP_NODELAY) only where the socket names its protocol
        server = socket.socket(family, kind, protocol)
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


@dataclass(frozen=True)
class Reach:
    """Who can speak to the service. Raises `UserError` for others than this machine without a token."""

    host: str = "127.0.0.1"
    allowed_hosts: tuple[str, ...] = ()
    """Further names that requests may use for the service."""
    proxy: str | None = None
    """The address or network of a proxy in front, whose X-Forwarded-For and -Proto are believed."""
    root_path: str = ""
    """The path under which that proxy shows the service; it takes it off before it passes a request on."""
    rate: float = 0.0
    """Requests a second that one address may send on average; 0 for any number."""
    has_token: bool = False
    """Whether somebody has a token that can be used."""
    insecure: bool = False
    """Whether it may be open to others although nobody has a token."""

    def __post_init__(self) -> None:
        if not re.fullmatch(r"(/[\w.~-]+)*", self.root_path, re.ASCII):
            raise UserError(f"--root-path {self.root_path}: write a path such as /headcount")
        if self.proxy is not None and not _is_network(self.proxy):
            raise UserError(
                f"--proxy {self.proxy}: write an address or network such as 10.0.0.7 or 10.0.0.0/24"
            )
        if self.beyond_loopback and not self.has_token and not self.insecure:
            raise UserError(
                f"{self._how} would let other machines read and submit sweeps without a token; "
                "make one first (headcount token create NAME --scope admin), use 127.0.0.1 and a tunnel, "
                "or add --insecure if only trusted machines can reach it"
            )

    @property
    def beyond_loopback(self) -> bool:
        """Whether others than this machine can reach the service."""
        return bool(self._how)

    @property
    def is_open(self) -> bool:
        """Whether a service without any token answers everyone."""
        return self.insecure or not self.beyond_loopback

    @property
    def _how(self) -> str:
        """The option that lets others reach it."""
        if self.host not in LOOPBACK_HOSTS:
            return f"--host {self.host}"
        others = [name for name in self.allowed_hosts if name not in LOOPBACK_HOSTS]
        if others:
            return f"--allow-host {others[0]}"
        return f"--proxy {self.proxy}" if self.proxy else ""

    def access(self) -> Access:
        """As the application checks it."""
        hosts = (*LOOPBACK_HOSTS, self.host.lower(), *map(str.lower, self.allowed_hosts))
        return Access(hosts=tuple(dict.fromkeys(hosts)), open=self.is_open, rate=self.rate)


def _is_network(text: str) -> bool:
    try:
        ipaddress.ip_network(text, strict=False)
    except ValueError:
        return False
    return True


def serve(
    make_app: Callable[[Access], FastAPI],
    reach: Reach,
    *,
    port: int = DEFAULT_PORT,
    workers: int = 1,
    announce: Callable[[str], None] = print,
    warn: Callable[[str], None] = print,
) -> None:
    """Answer until a signal to stop; `announce` is told the URL once it is open.

    The application is made after the address is ours, in each of `workers` processes. Raises `UserError` as
    `listen` does.
    """
    server = listen(reach.host, port)
    try:
        name = f"[{reach.host}]" if ":" in reach.host else reach.host
        if reach.beyond_loopback and not reach.has_token:
            warn(
                "INSECURE: everyone who reaches this service may read every sweep, submit and cancel. "
                "headcount token create NAME closes it."
            )
        told = f"http://{name}:{server.getsockname()[1]}/"
        if workers == 1:
            _answer(make_app, reach, server, lambda: announce(told))
            return
        announce(told)
        run_workers(workers, lambda: _answer(make_app, reach, server, lambda: None))
    finally:
        server.close()


def _answer(
    make_app: Callable[[Access], FastAPI], reach: Reach, server: socket.socket, opened: Callable[[], None]
) -> None:
    config = uvicorn.Config(
        make_app(reach.access()),
        log_level="warning",
        log_config=None,
        proxy_headers=reach.proxy is not None,
        forwarded_allow_ips=reach.proxy or "",
        root_path=reach.root_path,
        server_header=False,
        timeout_graceful_shutdown=GRACE_SECONDS,
    )
    sys.setswitchinterval(SWITCH_SECONDS)
    opened()
    _Server(config).run(sockets=[server])
