import copy
import gc
import re
import weakref

import pytest
import torch
from torch import Tensor, nn

from headcount.kernels import DepthHistory, route, route_by_definition
from headcount.kernels.choice import choose

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


TOKENS = torch.tensor([[3, 1, 4]], device=DEVICE)


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


def test_a_bad_norm_weight_is_refused():
    history = DepthHistory(*routing_parameters(1), HEADS, implementation="two_phase")
    history.write(SOURCES[0])
    with pytest.raises(ValueError, match=re.escape(f"weight must be floating point of shape [{WIDTH}]")):
        history.read_normed(torch.ones(WIDTH + 1, device=DEVICE), 1e-6)


def test_a_product_wants_only_the_gradients_asked_for():
    model, reference = Model("two_phase", products=True), Model("reference", products=True)
    for each in (model, reference):
        for sublayer in each.sublayers:
            sublayer.mix.requires_grad_(False)
        each.sublayers[0].norm.requires_grad_(False)
    assert_close(trained_once(model), trained_once(reference))


def test_gradients_accumulate_over_micro_batches():
    other = torch.tensor([[1, 5, 9]], device=DEVICE)
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


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("implementation", ["fused", "two_phase"])
def test_nothing_waits_for_the_garbage_collector(backward, implementation):
    """A cycle would keep a step's tensors, and in a CUDA graph's warm-up its autograd nodes, alive."""
    gc.disable()
    try:
        history = DepthHistory(*routing_parameters(1), HEADS, implementation=implementation)
        source = SOURCES[0].clone().requires_grad_()
        history.write(source)
        loss = history.finish().sum()
        if backward:
            loss.backward()
        kept = weakref.ref(source if implementation == "fused" else history.whole_model.forward)
        del history, source, loss
        assert kept() is None
    finally:
        gc.enable()


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


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
@pytest.mark.parametrize("implementation", ["fused", "two_phase"])
def test_without_gradients_nothing_is_kept(mode, implementation):
    with mode():
        history = DepthHistory(*routing_parameters(2), HEADS, implementation=implementation)
        source = torch.randn(3, WIDTH, device=DEVICE)
        history.write(source)
        torch.testing.assert_close(history.read(), source)
        history.write(source)
        torch.testing.assert_close(history.finish(), source)
    if history.whole_model is not None:
        assert history.whole_model.forward.kept == {}


SOURCES = [torch.randn(3, WIDTH, generator=torch.Generator().manual_seed(n)).to(DEVICE) for n in range(2)]


def routing_parameters(num_sites: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(num_sites)
    queries = torch.randn(num_sites, WIDTH, device=DEVICE).requires_grad_()
    return queries, torch.ones(num_sites, WIDTH, device=DEVICE).requires_grad_()


@pytest.mark.parametrize("block_size", [1, 2, 3, 8])
def test_block_routing_reads_the_embedding_finished_blocks_and_the_sum_so_far(block_size):
    queries, key_weights = routing_parameters(6)
    outputs = [torch.randn(2, WIDTH, device=DEVICE) for _ in range(6)]
    history = DepthHistory(queries, key_weights, HEADS, block_size=block_size, implementation="reference")
    for site, output in enumerate(outputs):
        history.write(output)
        blocks = [outputs[1 : site + 1][i : i + block_size] for i in range(0, site, block_size)]
        sources = [outputs[0], *(torch.stack(block).sum(0) for block in blocks)]
        expected = route_by_definition(sources, queries[site], key_weights[site], HEADS)
        torch.testing.assert_close(history.read(), expected)


@pytest.mark.parametrize("implementation", ["reference", "two_phase"])
def test_sources_are_what_the_next_site_would_read_over(implementation):
    history = DepthHistory(*routing_parameters(3), HEADS, implementation=implementation)
    written = [torch.randn(2, 3, WIDTH, device=DEVICE) for _ in range(2)]
    assert history.sources == []
    history.write(written[0])
    history.read()
    history.write(written[1])
    assert all(torch.equal(a, b) for a, b in zip(history.sources, written, strict=True))


def test_sources_are_gone_after_the_backward_of_two_phase():
    history = DepthHistory(*routing_parameters(1), HEADS, implementation="two_phase")
    history.write(SOURCES[0])
    history.finish().sum().backward()
    with pytest.raises(RuntimeError, match="the sources are gone"):
        history.sources  # noqa: B018


def test_blocks_of_one_sublayer_are_full_routing():
    assert_close(trained_once(Model("fused", block_size=1)), trained_once(Model("reference")))


@pytest.mark.parametrize("implementation", ["reference", "fused", "two_phase"])
def test_queries_may_be_a_list_of_vectors(implementation):
    queries, key_weights = routing_parameters(2)
    results = []
    for vectors in ((queries, key_weights), (list(queries.unbind(0)), list(key_weights.unbind(0)))):
        history = DepthHistory(*vectors, HEADS, implementation=implementation)
        history.write(SOURCES[0])
        history.read()
        history.write(SOURCES[1])
        results.append(torch.autograd.grad(history.finish().sum(), [queries, key_weights]))
    for a, b in zip(*results, strict=True):
        assert torch.equal(a, b)


def test_logits_are_scaled():
    queries, key_weights = routing_parameters(2)
    history = DepthHistory(queries, key_weights, HEADS, logit_scale=0.25)
    sources = [torch.randn(3, WIDTH, device=DEVICE) for _ in range(2)]
    for source in sources:
        history.write(source)
        mixed = history.read()
    torch.testing.assert_close(mixed, route(sources, queries[1] * 0.25, key_weights[1], HEADS))


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


def test_a_partial_backward_is_refused():
    history = DepthHistory(*routing_parameters(3), HEADS, implementation="two_phase")
    reads = []
    for _ in range(3):
        history.write(torch.randn(2, WIDTH, device=DEVICE))
        reads.append(history.read())
    with pytest.raises(RuntimeError, match="gradient of site 0 where it expected site 2"):
        reads[0].sum().backward()


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


def test_a_read_changed_in_place_is_noticed():
    history = DepthHistory(*routing_parameters(1), HEADS, implementation="two_phase")
    history.write(torch.randn(2, WIDTH, device=DEVICE))
    read = history.finish()
    loss = read.sum()
    with torch.no_grad():
        read.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_a_second_derivative_is_refused():
    model = Model("two_phase")
    with pytest.raises(RuntimeError, match="without create_graph"):
        torch.autograd.grad(model(TOKENS), [model.queries], create_graph=True)


def test_calls_out_of_turn_are_refused():
    source = torch.ones(2, WIDTH, device=DEVICE)
    history = DepthHistory(*routing_parameters(2), HEADS)
    with pytest.raises(RuntimeError, match="read out of turn: 0 sources and 0 reads"):
        history.read()
    history.write(source)
    with pytest.raises(RuntimeError, match="write out of turn: 1 sources and 0 reads"):
        history.write(source)
    with pytest.raises(RuntimeError, match="finish after 1 sources, but the model has 2 sites"):
        history.finish()
    history.read()
    history.write(source)
    history.finish()
    with pytest.raises(RuntimeError, match="write out of turn: 2 sources and 2 reads of 2 sites"):
        history.write(source)


QUERIES = torch.ones(2, 6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"queries": torch.ones(6)},
            "queries must be floating point, one vector [d] for each site, got shape [6]",
        ),
        ({"queries": []}, "queries must be floating point, one vector [d] for each site, got shape []"),
        (
            {"key_weights": torch.ones(3, 6)},
            "key_weights is of shape [3, 6] but queries of [2, 6]",
        ),
        ({"heads": 4}, "heads must divide the width 6, got 4"),
        ({"block_size": 0}, "block_size must be at least 1 sublayer, got 0"),
        ({"implementation": "two-phase"}, "implementation 'two-phase' is unknown: did you mean 'two_phase'?"),
    ],
)
def test_bad_arguments_are_refused_by_name(arguments, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        DepthHistory(**{"queries": QUERIES, "key_weights": QUERIES, "heads": 2, **arguments})


def test_bad_sources_are_refused():
    with pytest.raises(
        ValueError, match=re.escape("source must be floating point of shape [..., 6] like queries")
    ):
        DepthHistory(QUERIES, QUERIES, 2).write(torch.ones(3, 5))
    with pytest.raises(ValueError, match="queries is on cpu but the source is on meta"):
        DepthHistory(QUERIES, QUERIES, 2).write(torch.ones(3, 6, device="meta"))
    history = DepthHistory(QUERIES, QUERIES, 2)
    history.write(torch.ones(3, 6))
    history.read()
    with pytest.raises(
        ValueError, match=re.escape("source is torch.float16 [3, 6] on cpu, but the first was")
    ):
        history.write(torch.ones(3, 6).half())


def test_bad_products_are_refused_by_name():
    history = DepthHistory(*routing_parameters(2), HEADS, implementation="two_phase")
    x, weight = torch.ones(3, 8, device=DEVICE), torch.ones(WIDTH, 8, device=DEVICE)
    history.write(SOURCES[0])
    with pytest.raises(RuntimeError, match="write out of turn: 1 sources and 0 reads"):
        history.write_product(x, weight)
    history.read()
    for bad in ((x[:2], weight), (x, weight[:8]), (x, weight.half()), (x.half(), weight)):
        with pytest.raises(
            ValueError, match=r"(x|weight) is torch.float(16|32) \[.*, expected torch.float32"
        ):
            history.write_product(*bad)


def test_the_choice_is_told_with_its_reason(monkeypatch):
    source = torch.ones(2, 6)
    assert choose("auto", source, one_site=False).implementation == "reference"
    with pytest.raises(ValueError, match="'two_phase' cannot run: two_phase serves a whole model"):
        choose("two_phase", source.to(DEVICE), one_site=True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert choose("auto", source, one_site=False).reason == "the kernels need CUDA and the sources are on cpu"
    with pytest.raises(
        ValueError, match="'fused' cannot run: the kernels need CUDA and the sources are on cpu"
    ):
        choose("fused", source, one_site=False)


def test_two_phase_tells_its_launch_parameters():
    history = DepthHistory(*routing_parameters(2), HEADS, implementation="two_phase")
    history.write(torch.ones(2, WIDTH, device=DEVICE))
    assert history.choice.launch["block_sites"] == 8
