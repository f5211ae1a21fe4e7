import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

from headcount.orchestrator.store import open_store
from headcount.orchestrator.store.tokens import create_token


def serve(home: Path, *options: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "headcount", "serve", *options],
        env={"HEADCOUNT_HOME": str(home), "PATH": "/usr/bin:/bin", "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=_heed_interrupts,
    )


def _heed_interrupts() -> None:
    """A shell starts its background jobs, and all they start, with the signal of Ctrl-C ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_serve_answers_pages_and_api_until_it_is_stopped(tmp_path: Path) -> None:
    process = serve(tmp_path, "--port", "0")
    try:
        assert process.stdout is not None
        url = process.stdout.readline().split()[-1]
        assert url.startswith("http://127.0.0.1:")
        with urllib.request.urlopen(url) as page:
            assert "No sweep yet" in page.read().decode()
        with urllib.request.urlopen(f"{url}api/v1/sweeps") as answer:
            assert answer.headers["content-type"] == "application/json"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, errors) == (130, "\nStopped.\n")


def test_a_port_in_use_is_an_error_with_a_way_out(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        process = serve(tmp_path, "--port", port)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 2
    assert errors == (
        f"Error: cannot listen at 127.0.0.1 port {port}: it is in use; choose another with --port\n"
    )


def test_other_machines_are_let_in_with_a_loud_line_or_a_token(tmp_path: Path) -> None:
    refused = serve(tmp_path, "--port", "0", "--host", "0.0.0.0")
    _, errors = refused.communicate(timeout=60)
    assert refused.returncode == 2
    assert errors.startswith("Error: --host 0.0.0.0 would let other machines read and submit sweeps")
    assert first_lines(tmp_path, "--insecure")[1].startswith("INSECURE: everyone who reaches this service")
    with open_store(f"sqlite:///{tmp_path / 'headcount.db'}").write() as session:
        create_token(session, "ada", "read", expires=None, by="tester")
    assert first_lines(tmp_path)[1] == ""


def first_lines(home: Path, *options: str) -> tuple[str, str]:
    """What a service open to others says once it listens, and what it warned of."""
    process = serve(home, "--port", "0", "--host", "0.0.0.0", *options)
    try:
        assert process.stdout is not None
        address = process.stdout.readline()
        assert address.startswith("Headcount is at http://0.0.0.0:")
        process.send_signal(signal.SIGKILL)
        return address, process.communicate(timeout=20)[1]
    finally:
        process.kill()
