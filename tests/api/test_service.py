"""Where the service listens, and where it refuses to."""

import socket
from typing import Any

import pytest

from headcount.api.service import Reach, listen
from headcount.trainer.errors import UserError


def test_a_port_in_use_is_the_users_to_mend() -> None:
    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        message = rf"cannot listen at 127\.0\.0\.1 port {port}: it is in use; choose another with --port"
        with pytest.raises(UserError, match=message):
            listen("127.0.0.1", port)


@pytest.mark.parametrize(
    ("option", "reach"),
    [
        *((f"--host {host}", {"host": host}) for host in ("0.0.0.0", "::", "192.0.2.7", "example.org")),
        ("--allow-host box.lan", {"allowed_hosts": ("localhost", "box.lan")}),
        ("--proxy 127.0.0.1", {"proxy": "127.0.0.1"}),
    ],
)
def test_others_are_let_in_only_with_a_token_or_on_request(option: str, reach: dict[str, Any]) -> None:
    with pytest.raises(UserError, match=f"{option} would let other machines.*token create.*--insecure"):
        Reach(**reach)
    assert not Reach(**reach, has_token=True).access().open
    assert Reach(**reach, insecure=True).access().open


def test_this_machine_alone_needs_no_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1"):
        access = Reach(host).access()
        assert (access.open, set(access.hosts)) == (True, {"127.0.0.1", "localhost", "::1"})


def test_an_open_address_is_reached() -> None:
    with listen("0.0.0.0", 0) as server:
        assert server.getsockname()[0] == "0.0.0.0"
        with socket.create_connection(("127.0.0.1", server.getsockname()[1]), timeout=5):
            pass


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(UserError, match=r"cannot listen at 192\.0\.2\.7 port 1234"):
        listen("192.0.2.7", 1234)
    with pytest.raises(UserError, match="cannot listen at no such host"):
        listen("no such host", 1234)


@pytest.mark.parametrize("path", ["headcount", "/headcount/", "/", "//evil.example", "/a b", '/"'])
def test_a_root_path_is_a_plain_path(path: str) -> None:
    with pytest.raises(UserError, match="write a path such as /headcount"):
        Reach(root_path=path)
    assert Reach(root_path="/lab/headcount").root_path == "/lab/headcount"


@pytest.mark.parametrize("proxy", ["*", "", "nginx", "10.0.0.0/40", "10.0.0.1,10.0.0.2"])
def test_a_proxy_is_named_by_its_address(proxy: str) -> None:
    with pytest.raises(UserError, match="write an address or network"):
        Reach(proxy=proxy, has_token=True)
    for address in ("10.0.0.7", "10.0.0.0/24", "::1"):
        assert Reach(proxy=address, has_token=True).proxy == address


def test_names_of_hosts_are_compared_in_lower_case() -> None:
    assert "results.lab" in Reach(allowed_hosts=("Results.LAB",), has_token=True).access().hosts
