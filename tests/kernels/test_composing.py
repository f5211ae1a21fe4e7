"""A model that trains through a history, with what PyTorch has around it."""

import copy

import pytest
import torch
from torch import Tensor, nn

from headcount.kernels import DepthHistory

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
WIDTH, HEADS, NUM_SITES = 32, 2, 5


class Sublayer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm = nn.RMSNorm(WIDTH, eps=1e-6)
        nn.init.uniform_(self.norm.weight, 0.5, 1.5)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.mix(self.norm(x)))


class Model(nn.Module):
    """The smallest model with depth routing: tokens to a loss."""

    def __init__(
        self,
        implementation: str,
        block_size: int | None = None,
        *,
        products: bool = False,
        norms: bool = False,
    ) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(11, WIDTH)
        self.sublayers = nn.ModuleList(Sublayer() for _ in range(NUM_SITES - 1))
        self.queries = nn.Parameter(torch.randn(NUM_SITES, WIDTH))
        self.key_weights = nn.Parameter(torch.ones(NUM_SITES, WIDTH))
        self.implementation, self.block_size = implementation, block_size
        self.products, self.norms = products, norms
        self.to(DEVICE)

    def forward(self, tokens: Tensor) -> Tensor:
        history = DepthHistory(
            self.queries,
            self.key_weights,
            HEADS,
            implementation=self.implementation,
            block_size=self.block_size,
        )
        history.write(self.embedding(tokens))
        for sublayer in self.sublayers:
            if self.norms:
                output = torch.tanh(sublayer.mix(history.read_normed(sublayer.norm.weight, 1e-6)))
            else:
                output = sublayer(history.read())
            if self.products:
                history.write_product(output, sublayer.mix.weight)
            else:
                history.write(output)
        return history.finish().square().mean()

    def gradients(self) -> dict[str, Tensor]:
        return {name: parameter.grad for name, parameter in self.named_parameters()}


TOKENS = torch.tensor([[3, 1]], device=DEVICE)


def trained_once(model: Model, *batches: Tensor) -> dict[str, Tensor]:
    for tokens in batches or (TOKENS,):
        model(tokens).backward()
    return model.gradients()


def assert_close(ours: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    torch.testing.assert_close(ours, expected, rtol=2e-4, atol=4e-6)


@pytest.mark.parametrize("implementation", ["fused", "two_phase"])
def test_a_model_trains_the_same_through_every_implementation(implementation):
    assert_close(trained_once(Model(implementation)), trained_once(Model("reference")))


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("num_sites", [NUM_SITES, 10])  # one block, and two
def test_a_product_written_in_place_is_the_product_written(monkeypatch, num_sites):
    monkeypatch.setattr(f"{__name__}.NUM_SITES", num_sites)
    in_place = trained_once(Model("two_phase", products=True))
    assert_close(in_place, trained_once(Model("reference", products=True)))


@pytest.mark.usefixtures("poisoned")
@pytest.mark.parametrize("implementation", ["fused", "two_phase"])
@pytest.mark.parametrize("num_sites", [NUM_SITES, 10])
def test_a_read_normed_at_once_is_the_read_normed(monkeypatch, num_sites, implementation):
    monkeypatch.setattr(f"{__name__}.NUM_SITES", num_sites)
    at_once = trained_once(Model(implementation, norms=True, products=True))
    assert_close(at_once, trained_once(Model("reference", norms=True, products=True)))


def test_a_product_wants_only_the_gradients_asked_for():
    model, reference = Model("two_phase", products=True), Model("reference", products=True)
    for each in (model, reference):
        for sublayer in each.sublayers:
            sublayer.mix.requires_grad_(False)
        each.sublayers[0].norm.requires_grad_(False)
    assert_close(trained_once(model), trained_once(reference))


def test_gradients_accumulate_over_micro_batches():
    other = torch.tensor([[5, 9]], device=DEVICE)
    assert_close(
        trained_once(Model("two_phase"), TOKENS, other), trained_once(Model("reference"), TOKENS, other)
    )


def test_models_in_one_process_do_not_meet():
    """Two forwards, then the backwards in the order of the forwards."""
    first, second = Model("two_phase"), Model("two_phase")
    losses = [first(TOKENS), second(TOKENS.flip(1))]
    for loss in losses:
        loss.backward()
    assert_close(first.gradients(), trained_once(Model("reference"), TOKENS))
    assert_close(second.gradients(), trained_once(Model("reference"), TOKENS.flip(1)))


@pytest.mark.parametrize("frozen", ["queries", "embedding.weight"])
def test_frozen_parameters_leave_the_other_gradients_alone(frozen):
    model, reference = Model("two_phase"), Model("reference")
    for each in (model, reference):
        each.get_parameter(frozen).requires_grad_(False)
    assert_close(trained_once(model), trained_once(reference))


def test_checkpointed_sublayers_train_the_same():
    class Checkpointed(Sublayer):
        def forward(self, x: Tensor) -> Tensor:
            return torch.utils.checkpoint.checkpoint(super().forward, x, use_reentrant=False)

    model = Model("two_phase")
    for index, sublayer in enumerate(model.sublayers):
        model.sublayers[index] = Checkpointed().to(DEVICE)
        model.sublayers[index].load_state_dict(sublayer.state_dict())
    assert_close(trained_once(model), trained_once(Model("reference")))


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")  # Dynamo looks
def test_compiled_sublayers_train_the_same():
    model = Model("two_phase")
    for sublayer in model.sublayers:
        sublayer.compile(backend="aot_eager", fullgraph=True)
    assert_close(trained_once(model), trained_once(Model("reference")))


@pytest.mark.parametrize("implementation", ["reference", "fused", "two_phase"])
def test_under_autocast_routing_computes_as_it_does_without(implementation):
    """Sublayers give half precision, and what routing takes in float32 stays so."""
    half = torch.bfloat16 if DEVICE == "cuda" else torch.float16  # the interpreter truncates bfloat16
    model = Model("reference")

    def run(autocast: bool) -> list[Tensor]:
        embedding = model.embedding(TOKENS).to(half)
        with torch.autocast(DEVICE, half, enabled=autocast):
            vectors = model.queries[:3], model.key_weights[:3]
            history = DepthHistory(*vectors, HEADS, implementation=implementation)
            history.write(embedding)
            for sublayer in model.sublayers[:2]:
                x = history.read_normed(sublayer.norm.weight.to(half), 1e-6)
                mix = sublayer.mix
                history.write(torch.tanh(mix(x) if autocast else nn.functional.linear(x, *halved(mix))))
            out = history.finish()
        wanted = [model.queries, model.key_weights, model.embedding.weight]
        return [out, *torch.autograd.grad(out.float().square().sum(), wanted)]

    def halved(mix: nn.Linear) -> tuple[Tensor, Tensor]:
        return mix.weight.to(half), mix.bias.to(half)

    for ours, expected in zip(run(True), run(False), strict=True):
        assert torch.equal(ours, expected)


def test_distributed_data_parallel_trains_the_same(tmp_path):
    backend = "nccl" if DEVICE == "cuda" else "gloo"
    store = torch.distributed.FileStore(str(tmp_path / "store"), 1)
    torch.distributed.init_process_group(backend, store=store, rank=0, world_size=1)
    try:
        model = Model("two_phase")
        parallel = nn.parallel.DistributedDataParallel(model)  # its hooks go when it goes
        parallel(TOKENS).backward()
        assert_close(model.gradients(), trained_once(Model("reference")))
    finally:
        torch.distributed.destroy_process_group()


def test_blocks_of_one_sublayer_are_full_routing():
    assert_close(trained_once(Model("fused", block_size=1)), trained_once(Model("reference")))


def test_a_second_backward_is_refused_by_two_phase_and_right_with_fused():
    loss = Model("two_phase")(TOKENS)
    loss.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="runs its backward once"):
        loss.backward()
    model = Model("fused")
    loss = model(TOKENS)
    loss.backward(retain_graph=True)
    once = copy.deepcopy(model.gradients())
    loss.backward()
    assert_close(model.gradients(), {name: 2 * gradient for name, gradient in once.items()})


def test_checkpointing_a_read_is_refused_with_what_to_do():
    model = Model("two_phase")
    history = DepthHistory(model.queries, model.key_weights, HEADS, implementation="two_phase")
    history.write(model.embedding(TOKENS))
    output = torch.utils.checkpoint.checkpoint(
        lambda: model.sublayers[0](history.read()), use_reentrant=False
    )
    history.write(output)
    with pytest.raises(RuntimeError, match="checkpointing must wrap the sublayer alone"):
        history.read().sum().backward()


@pytest.mark.parametrize("implementation", ["reference", "fused", "two_phase"])
def test_a_second_derivative_is_refused(implementation):
    model = Model(implementation)

    def differentiate_twice() -> None:
        (first,) = torch.autograd.grad(model(TOKENS), [model.queries], create_graph=True)
        torch.autograd.grad(first.sum(), [model.queries])

    with pytest.raises(RuntimeError, match="without create_graph"):
        differentiate_twice()
