import pytest
import torch

from headcount.__main__ import cli


@pytest.mark.skipif(torch.cuda.is_available(), reason="would run the benchmark")
def test_the_benchmark_without_a_gpu_says_what_it_needs(capsys):
    with pytest.raises(SystemExit) as stopped:
        cli(["bench", "routing", "--shapes", "100m"], standalone_mode=False)
    assert stopped.value.code == 2
    assert "the benchmark needs a CUDA device and found none" in capsys.readouterr().err


def test_the_benchmark_names_its_options(capsys):
    with pytest.raises(SystemExit):
        cli(["bench", "routing", "--help"], standalone_mode=False)
    out = capsys.readouterr().out
    assert all(option in out for option in ("--shapes", "--peers", "--tune", "--json"))
