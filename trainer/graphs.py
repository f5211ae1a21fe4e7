"""CUDA graphs: work that is captured once and replayed, so that Python and launches cost nothing a pass."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor

Work = Callable[..., None]

_NOTICES = ("Synchronization debug mode is a prototype", "The AccumulateGrad node's stream")
"""Warnings of PyTorch's that capturing on a stream of its own sets off, and that ask for nothing."""


class GraphError(RuntimeError):
    """Why some work cannot be captured."""


class Graphs:
    """Captured work, all of it on one stream and in one pool of memory: graphs are replayed one at a time."""

    def __init__(self, device: torch.device) -> None:
        self.stream = torch.cuda.Stream(device)  # type: ignore[no-untyped-call]
        self._pool = torch.cuda.graph_pool_handle()
        self._captured: dict[tuple[Work, int], tuple[torch.cuda.CUDAGraph, tuple[Tensor, ...]]] = {}

    @contextmanager
    def on_stream(self) -> Iterator[None]:
        """Run on the graphs' stream, after what the current one was given and before what it will be."""
        current = torch.cuda.current_stream()
        self.stream.wait_stream(current)
        with torch.cuda.stream(self.stream):
            yield
        current.wait_stream(self.stream)

    def capture(self, work: Work, *inputs: Tensor, prepare: Callable[[], None]) -> None:
        """Run `work` as it is and then capture it, for inputs of these shapes. `prepare` runs before each.

        Raises `GraphError` for work that waits for the device.
        """
        with self.on_stream(), warnings.catch_warnings():
            for message in _NOTICES:
                warnings.filterwarnings("ignore", message)
            prepare()
            work(*inputs)  # compiles what is not compiled yet, which waits for the GPU
            prepare()
            with _no_waiting():
                work(*inputs)
            prepare()
            graph = torch.cuda.CUDAGraph()
            try:
                with torch.cuda.graph(
                    graph, pool=self._pool, stream=self.stream, capture_error_mode="thread_local"
                ):
                    work(*inputs)
            except RuntimeError as error:
                raise GraphError(str(error).partition("\n")[0]) from error
        self._captured[_key(work, inputs)] = graph, inputs

    def replay(self, work: Work, *inputs: Tensor) -> None:
        """Do the work again with other inputs; captured inputs are overwritten with them."""
        graph, captured = self._captured[_key(work, inputs)]
        for into, given in zip(captured, inputs, strict=True):
            into.copy_(given, non_blocking=True)
        graph.replay()


def _key(work: Work, inputs: tuple[Tensor, ...]) -> tuple[Work, int]:
    return work, len(inputs[0]) if inputs else 0


@contextmanager
def _no_waiting() -> Iterator[None]:
    """Turn what would make the CPU wait for the GPU, which no graph can hold, into a `GraphError`."""
    mode = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    except RuntimeError as error:
        if "synchronizing" not in str(error):
            raise
        raise GraphError("it waits for the GPU within a pass") from error
    finally:
        torch.cuda.set_sync_debug_mode(mode)
