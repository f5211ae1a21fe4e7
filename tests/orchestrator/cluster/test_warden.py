"""What a node is refused for."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from headcount import __version__
from headcount.orchestrator.cluster.warden import Warden, refusal
from headcount.trainer.config import NUMERICS


def test_a_node_like_this_one_that_sees_our_folders_is_taken(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    mark.touch()
    report = Warden().report([os.getpid(), 2**22 + 1], [str(mark)])
    assert (report.version, report.numerics, report.unseen) == (__version__, NUMERICS, ())
    assert list(report.signs) == [os.getpid()]
    assert refusal(report) is None


def test_a_node_is_refused_with_the_reason(tmp_path: Path) -> None:
    report = Warden().report([], [str(tmp_path / "a" / "mark"), str(tmp_path / "mark")])
    assert report.unseen == (str(tmp_path / "a"), str(tmp_path))
    words = refusal(report)
    assert words is not None
    assert f"it does not share {tmp_path / 'a'}, {tmp_path} with this machine" in words
    other = refusal(replace(report, version="9.9.9"))
    assert other == f"it has headcount 9.9.9, here is {__version__}; install the same version on every node"
    numbers = refusal(replace(report, numerics=NUMERICS + 1))
    assert numbers is not None
    assert f"computes other numbers (NUMERICS {NUMERICS + 1}, here {NUMERICS}" in numbers


def test_a_warden_tells_of_the_cards_that_its_node_was_started_with() -> None:
    code = "import os; os.environ['CUDA_VISIBLE_DEVICES'] = ''\n"
    code += "from headcount.orchestrator.cluster.warden import Warden\n"
    code += "print(Warden().report([], []).visible)"
    for names, numbers in (("2,0", "(2, 0)"), ("", "()")):
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": names}
        told = subprocess.run(
            [sys.executable, "-P", "-c", code], env=environment, capture_output=True, text=True
        )
        assert told.stdout.strip() == numbers, told.stderr
