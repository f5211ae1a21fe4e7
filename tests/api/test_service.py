"""Where the service listens, and where it refuses to."""

import socket

import pytest

from headcount.api.service import listen
from headcount.trainer.errors import UserError


def test_a_port_in_use_is_the_users_to_mend() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        message = rf"cannot listen at 127\.0\.0\.1 port {port}: it is in use; choose another with --port"
        with pytest.raises(UserError, match=message):
            listen("127.0.0.1", port)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_other_machines_are_let_in_only_on_request(host: str) -> None:
    with pytest.raises(UserError, match=f"--host {host} would let other machines.*--insecure"):
        listen(host, 0)


def test_an_open_address_needs_the_word() -> None:
    with listen("0.0.0.0", 0, insecure=True) as server:
        assert server.getsockname()[0] == "0.0.0.0"
        with socket.create_connection(("127.0.0.1", server.getsockname()[1]), timeout=5):
            pass


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot listen at 192\.0\.2\.7 port 1234"):
        listen("192.0.2.7", 1234, insecure=True)
    with pytest.raises(UserError, match="cannot listen at no such host"):
        listen("no such host", 1234, insecure=True)
