import pytest
import torch

from headcount.__main__ import cli

OPTIONS = {"routing": ("--shapes", "--peers", "--tune", "--json"), "step": ("--models", "--json")}


@pytest.mark.skipif(torch.cuda.is_available(), reason="would run the benchmark")
@pytest.mark.parametrize("bench", OPTIONS)
def test_a_benchmark_without_a_gpu_says_what_it_needs(capsys, bench):
    with pytest.raises(SystemExit) as stopped:
        cli(["bench", bench, OPTIONS[bench][0], "100m"], standalone_mode=False)
    assert stopped.value.code == 2
    assert "the benchmark needs a CUDA device and found none" in capsys.readouterr().err


@pytest.mark.parametrize("bench", OPTIONS)
def test_a_benchmark_names_its_options(capsys, bench):
    with pytest.raises(SystemExit):
        cli(["bench", bench, "--help"], standalone_mode=False)
    out = capsys.readouterr().out
    assert all(option in out for option in OPTIONS[bench])
