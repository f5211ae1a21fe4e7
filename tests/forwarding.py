"""A way from a port of the loopback address to another host's."""

import socket
import threading
from collections.abc import Iterator


class Forward:
    """Passes connections on; with `most`, so many bytes and then no more, like a cable that is pulled."""

    def __init__(self, target: tuple[str, int], port: int = 0, most: int | None = None) -> None:
        """`port` is where it listens; any free one with 0."""
        self._target, self._left = target, most
        self._listener = socket.create_server(("127.0.0.1", port))
        self.port: int = self._listener.getsockname()[1]
        self.is_full = threading.Event()

    def __enter__(self) -> "Forward":
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *error: object) -> None:
        self._listener.close()

    def _accept(self) -> None:
        for client in self._clients():
            try:
                server = socket.create_connection(self._target)
            except OSError:
                client.close()
                continue
            threading.Thread(target=self._pass, args=(client, server, True), daemon=True).start()
            threading.Thread(target=self._pass, args=(server, client, False), daemon=True).start()

    def _clients(self) -> Iterator[socket.socket]:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:  # closed
                return
            yield client

    def _pass(self, source: socket.socket, target: socket.socket, counted: bool) -> None:
        try:
            while data := source.recv(65536):
                if counted and self._left is not None:
                    self._left -= len(data)
                    if self._left < 0:
                        self.is_full.set()
                        return
                target.sendall(data)
        except OSError:
            pass
        finally:
            target.close()
