"""Signs of life that a process gives without its own doing."""

import os
import signal
import subprocess
import sys
import time

from homes import wait_for

from headcount.orchestrator.slots.heartbeat import (
    STILL_SECONDS,
    STOPPED_SECONDS,
    WORDLESS_SECONDS,
    Pulse,
    Sign,
    read_sign,
)


def test_a_process_that_holds_its_interpreter_lock_is_seen_to_compute() -> None:
    """One C call over a big number: no other thread of that process gets a turn."""
    code = "print('go', flush=True); pow(7, 10**7)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        first = read_sign(process.pid)
        assert first is not None
        pulse = Pulse()
        pulse.feel(first, 0.0)

        def computes() -> bool:
            sign = read_sign(process.pid)
            return sign is not None and sign.cpu_seconds > first.cpu_seconds + 0.1

        wait_for(computes)
        process.kill()
    assert read_sign(process.pid) is None


def test_a_stopped_process_is_seen_to_be_stopped() -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        os.kill(process.pid, signal.SIGSTOP)
        wait_for(lambda: (sign := read_sign(process.pid)) and sign.state == "T")
        process.kill()


def test_own_sign() -> None:
    began = read_sign(os.getpid())
    assert began is not None
    end = time.process_time() + 0.05
    while time.process_time() < end:
        pass
    after = read_sign(os.getpid())
    assert after is not None
    assert after.cpu_seconds > began.cpu_seconds
    assert after.state == "R"


def test_stopped_for_long_is_lost_and_stopped_for_a_while_is_not() -> None:
    pulse = Pulse()
    pulse.feel(Sign("T", 5.0), 100.0)
    assert pulse.verdict(100.0, 100.0 + STOPPED_SECONDS - 1) is None
    assert pulse.verdict(100.0, 100.0 + STOPPED_SECONDS) == (
        "slot_lost",
        f"its process has been stopped for {STOPPED_SECONDS:.0f} s",
    )
    pulse.feel(Sign("S", 5.0), 120.0)
    assert pulse.verdict(100.0, 100.0 + STOPPED_SECONDS) is None


def test_a_long_call_that_computes_is_let_be_and_one_that_waits_for_ever_is_timed_out() -> None:
    computing, waiting = Pulse(), Pulse()
    for second in range(0, int(STILL_SECONDS) + 1, 10):
        computing.feel(Sign("R", float(second)), float(second))
        waiting.feel(Sign("S", 0.001 * second), float(second))
    assert computing.verdict(0.0, STILL_SECONDS) is None
    assert waiting.verdict(0.0, STILL_SECONDS - 1) is None
    assert waiting.verdict(0.0, STILL_SECONDS) == (
        "timed_out",
        "told nothing and computed nothing for 15 minutes",
    )
    assert waiting.verdict(STILL_SECONDS - 1, STILL_SECONDS) is None  # its job has told something
    computing.feel(Sign("R", 1e6), WORDLESS_SECONDS)
    assert computing.verdict(0.0, WORDLESS_SECONDS) == ("timed_out", "told nothing for 60 minutes")
