"""What two_phase takes beyond the sites' results, at the shapes of docs/kernels.md."""

import pytest
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from headcount.kernels import forward, gradients, launching
from headcount.kernels.bench import SHAPES
from headcount.kernels.two_phase import TwoPhase


class Allocated(TorchDispatchMode):
    """The most bytes that operators' results held at once, those of `given` tensors left out."""

    def __init__(self, given: list[Tensor]) -> None:
        super().__init__()
        self.given = [StorageWeakRef(tensor.untyped_storage()) for tensor in given]
        self.alive: dict[int, tuple[StorageWeakRef, int]] = {}
        self.peak = 0

    def __torch_dispatch__(self, operator, types, args=(), kwargs=None):
        results = operator(*args, **(kwargs or {}))
        self.alive = {key: held for key, held in self.alive.items() if not held[0].expired()}
        for tensor in tree_leaves(results):
            if isinstance(tensor, Tensor):
                reference = StorageWeakRef(tensor.untyped_storage())
                if reference not in self.given:
                    self.alive[reference.cdata] = reference, tensor.untyped_storage().nbytes()
        self.peak = max(self.peak, sum(size for _, size in self.alive.values()))
        return results


class Unlaunched:
    """A kernel that does nothing, since tensors without memory are enough to count it."""

    def __getitem__(self, grid: object):
        return lambda *arguments, **constants: None


@pytest.mark.parametrize("name", ["100m", "350m", "1b", "8b"])
def test_two_vectors_a_source_and_little_more(monkeypatch, name):
    for module in (forward, gradients, launching):
        for kernel in [each for each in vars(module) if each.endswith("_kernel")]:
            monkeypatch.setattr(module, kernel, Unlaunched())
    shape = SHAPES[name]

    def empty(*size: int, dtype: torch.dtype = torch.bfloat16) -> Tensor:
        return torch.empty(*size, dtype=dtype, device="meta")

    sources = [empty(shape.tokens, shape.width).requires_grad_() for _ in range(shape.sites)]
    site_gradients = [empty(shape.tokens, shape.width) for _ in range(shape.sites)]
    folded = empty(shape.sites, shape.width, dtype=torch.float32).requires_grad_()
    with Allocated([*sources, *site_gradients, folded]) as allocated:
        state = TwoPhase(folded, sources[0], shape.heads, 1e-6)
        reads = []
        for source in sources:
            state.write(source)
            reads.append(state.read())
        torch.autograd.grad(reads, [*sources, folded], site_gradients)
    all_sources = shape.sites * shape.tokens * shape.width * 2
    beyond = (allocated.peak - all_sources) / all_sources  # the results are as large as the sources
    assert 2.0 < beyond < 2.1
