"""Asking a service over kept connections, with little work of our own: the clock is the service's."""

import asyncio
import socket
import time
from typing import NamedTuple

LIMIT_SECONDS = 60


class Answer(NamedTuple):
    """What came, and after which time."""

    status: int
    headers: dict[str, str]
    body: bytes
    milliseconds: float


class Connection:
    """One kept HTTP/1.1 connection on the loopback interface; answers have a Content-Length."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def get(self, path: str, etag: str | None = None) -> Answer:
        """Ask for a path, with If-None-Match where there is an ETag."""
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        condition = f"If-None-Match: {etag}\r\n" if etag else ""
        begun = time.perf_counter()
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{self._port}\r\n{condition}\r\n".encode())
        async with asyncio.timeout(LIMIT_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
            status, headers = _parsed(head)
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        return Answer(status, headers, body, 1000 * (time.perf_counter() - begun))

    def close(self) -> None:
        if self._streams is not None:
            self._streams[1].close()


class Stream(NamedTuple):
    """A streamed answer, read to its end."""

    first_byte_ms: float
    rows: int
    seconds: float


def stream(port: int, path: str) -> Stream:
    """Read a streamed answer as fast as it comes, and count its lines."""
    with socket.create_connection(("127.0.0.1", port), timeout=LIMIT_SECONDS) as connection:
        begun = time.perf_counter()
        connection.sendall(
            f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nConnection: close\r\n\r\n".encode()
        )
        head = b""
        while b"\r\n\r\n" not in head or not head.partition(b"\r\n\r\n")[2]:
            head += connection.recv(65536)
        first = time.perf_counter() - begun
        assert head.startswith(b"HTTP/1.1 200"), head[:200]
        rows = head.partition(b"\r\n\r\n")[2].count(b"\n")
        while part := connection.recv(1 << 20):
            rows += part.count(b"\n")
    return Stream(1000 * first, rows, time.perf_counter() - begun)


def _parsed(head: bytes) -> tuple[int, dict[str, str]]:
    first, *lines = head.decode("latin-1").split("\r\n")
    pairs = (line.partition(":") for line in lines if line)
    return int(first.split(" ")[1]), {name.lower(): value.strip() for name, _, value in pairs}
