"""The benchmark's transformer, small."""

import pytest
import torch
from torch import Tensor

from headcount.kernels.measurement import captured
from headcount.kernels.step_model import Model, Transformer

GPU = torch.cuda.is_available()
DEVICE = "cuda" if GPU else "cpu"
SMALL = Model(windows=1, context=4, width=128, layers=2, feed_forward=64, routing_heads=2, vocabulary=50)


def tokens() -> Tensor:
    return torch.randint(50, (2, SMALL.tokens), generator=torch.Generator().manual_seed(0)).to(DEVICE)


# compiling imports what warns, and warns of products without TF32
quiet_compile = pytest.mark.filterwarnings("ignore")


@quiet_compile
def test_every_implementation_gives_the_model_the_same_loss_and_gradients():
    results = []
    for implementation in ("reference", "fused", "two_phase"):
        model = Transformer(SMALL, device=DEVICE, dtype=torch.float32)
        loss = model(*tokens(), implementation)
        loss.backward()
        results.append((loss, *(parameter.grad for parameter in model.parameters())))
    for result in results[1:]:
        for ours, expected in zip(result, results[0], strict=True):
            torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-6)


def test_flops_count_every_weight_once_a_pass_and_token():
    weights = 2 * (4 * 128**2 + 3 * 128 * 64) + 50 * 128
    assert SMALL.flops() == 4 * (6 * weights + 6 * 2 * 128 * 4)


@quiet_compile
@pytest.mark.gpu
@pytest.mark.skipif(not GPU, reason="needs a CUDA device")
def test_a_step_with_compiled_sublayers_trains_from_a_cuda_graph_as_without():
    losses = []
    for in_graph in (False, True):
        model = Transformer(SMALL)
        rate = torch.tensor(1e-3, device=DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=rate, fused=True, capturable=True)
        batch, loss = tokens(), torch.zeros((), device=DEVICE)

        def step() -> None:
            optimizer.zero_grad(set_to_none=True)  # noqa: B023
            out = model(*batch, "auto")  # noqa: B023
            out.backward()
            optimizer.step()  # noqa: B023
            loss.copy_(out.detach())  # noqa: B023

        run = step
        if in_graph:
            run = captured(step).replay
        else:
            step()
        measured = []
        for _ in range(3):
            run()
            measured.append(loss.item())
        losses.append(measured)
    assert losses[0] == losses[1]
    assert losses[0][-1] < losses[0][0]
