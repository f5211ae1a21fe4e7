"""Depth routing inside torch.compile and CUDA graphs."""

import pytest
import torch
from torch import Tensor

from headcount.kernels import DepthHistory, route
from headcount.kernels.fused import route_fused

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def draw(num_sources: int, *shape: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    torch.manual_seed(0)
    tensors = [torch.randn(*shape) for _ in range(num_sources)]
    return [tensor.to(DEVICE, dtype).requires_grad_() for tensor in tensors]


def test_the_operators_keep_pytorchs_contract():
    sources = draw(2, 1, 16)
    folded = torch.randn(16, device=DEVICE).requires_grad_()
    torch.library.opcheck(torch.ops.headcount.route.default, (sources, folded, 2, 1e-6))
    out = route_fused(sources, folded, 2, 1e-6).detach()
    _, lse = torch.ops.headcount.route(sources, folded, 2, 1e-6)
    arguments = (torch.ones_like(out), [s.detach() for s in sources], folded.detach(), out, lse, 1e-6)
    torch.library.opcheck(torch.ops.headcount.route_backward.default, arguments)


def test_a_whole_model_compiles_to_one_graph():
    queries, key_weights = torch.randn(2, 3, 16, device=DEVICE).unbind(0)
    (embedding,) = draw(1, 2, 16)

    def model(embedding: Tensor) -> Tensor:
        history = DepthHistory(queries, key_weights, 2, implementation="fused")
        history.write(embedding)
        for _ in range(2):
            history.write(torch.tanh(history.read()))
        return history.finish().sum()

    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    (ours,) = torch.autograd.grad(compiled(embedding), [embedding])
    (expected,) = torch.autograd.grad(model(embedding), [embedding])
    torch.testing.assert_close(ours, expected)


def test_two_phase_cannot_be_traced_and_says_so():
    queries = torch.ones(1, 16, device=DEVICE)

    @torch.compile(backend="eager")
    def model(embedding: Tensor) -> Tensor:
        history = DepthHistory(queries, queries, 2, implementation="two_phase")
        history.write(embedding)
        return history.finish()

    with pytest.raises(Exception, match=r"torch\.compile cannot trace two_phase"):
        model(torch.ones(2, 16, device=DEVICE))


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE == "cpu", reason="needs a CUDA device")
@pytest.mark.filterwarnings("ignore:The AccumulateGrad node's stream")
@pytest.mark.parametrize("implementation", ["fused", "two_phase"])
def test_a_training_step_replays_from_a_cuda_graph(implementation):
    width, heads, num_sites = 256, 2, 20
    queries = torch.randn(num_sites, width, device=DEVICE).div(10).requires_grad_()
    key_weights = torch.ones(num_sites, width, device=DEVICE).requires_grad_()
    (embedding,) = draw(1, 50, width, dtype=torch.bfloat16)
    parameters = [embedding, queries, key_weights]
    optimizer = torch.optim.AdamW(parameters, lr=torch.tensor(1e-2, device=DEVICE), capturable=True)

    def step() -> Tensor:
        history = DepthHistory(queries, key_weights, heads, implementation=implementation)
        history.write(embedding)
        for _ in range(num_sites - 1):
            history.write(torch.tanh(history.read()))
        loss = history.finish().float().square().mean()
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        return loss.detach()

    start = [parameter.detach().clone() for parameter in parameters]
    eager = [step().item() for _ in range(5)]
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = step()
    with torch.no_grad():
        for parameter, value in zip(parameters, start, strict=True):
            parameter.copy_(value)
        for state in optimizer.state.values():
            for value in state.values():
                value.zero_()
    replayed = []
    for _ in range(5):
        graph.replay()
        replayed.append(loss.item())
    assert replayed == eager
    assert eager[-1] < eager[0]


@pytest.mark.gpu
@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="needs two CUDA devices")
def test_kernels_run_on_the_sources_device_not_the_current_one():
    sources = [source.detach().to("cuda:1") for source in draw(3, 4, 64)]
    ones = torch.ones(64, device="cuda:1")
    on_second = route(sources, ones, ones, 2)
    on_first = route([s.to("cuda:0") for s in sources], ones.to("cuda:0"), ones.to("cuda:0"), 2)
    assert torch.equal(on_second.cpu(), on_first.cpu())
