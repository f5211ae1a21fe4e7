"""nanoGPT's own model, from a checkout of it, under torch.compile and the loop of its train.py.

Its blocks have 12 d² weights in products, so that it takes as many blocks as together have those of ours, at
the same width and vocabulary: equal FLOPs a token, but for a per cent or two in attention.
"""

import contextlib
import importlib.util
import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from headcount.trainer.bench.rows import Row, random_windows, reset_memory, row_of, timed
from headcount.trainer.config import JobConfig
from headcount.trainer.device import choose_device
from headcount.trainer.errors import UserError
from headcount.trainer.execution import Execution
from headcount.trainer.flops import product_weights


def measure_peer(scale: str, peer: Any, config: JobConfig, micro_batch: int, updates: int) -> Row:
    """A row of `peer`, of `load_peer`. It has no exact mode."""
    device = choose_device(config, Execution())
    reset_memory(device)
    windows = random_windows(config).to(device)
    with _its_settings(), contextlib.redirect_stdout(io.StringIO()):
        layers = peer_layers(config)
        model = _build(peer, config, layers, device)
        update = _update(model, config, windows, micro_batch, device)
        seconds = timed(update, updates)
    return row_of(scale, "nanoGPT", config, micro_batch, seconds, peer_flops(config, layers), device)


def peer_layers(config: JobConfig) -> int:
    """Blocks of nanoGPT's with the weights of ours."""
    model = config.model
    ours = product_weights(model) - model.vocab_size * model.d_model
    return round(ours / (12 * model.d_model**2))


def peer_flops(config: JobConfig, layers: int) -> float:
    """Of one token, by the formula of `trainer.flops`."""
    model = config.model
    products = 12 * layers * model.d_model**2 + model.vocab_size * model.d_model
    return 6.0 * products + 6.0 * layers * model.d_model * config.data.context


def load_peer(checkout: Path) -> Any:
    """nanoGPT's model.py as a module. Raises `UserError` where `checkout` does not hold it."""
    path = checkout / "model.py"
    spec = importlib.util.spec_from_file_location("nanogpt_model", path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise UserError(f"--peer: {checkout} has no model.py; give the path of a checkout of nanoGPT")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    if not (hasattr(module, "GPT") and hasattr(module, "GPTConfig")):
        raise UserError(f"--peer: {path} is not nanoGPT's: it defines no GPT and GPTConfig")
    return module


def _build(peer: Any, config: JobConfig, layers: int, device: torch.device) -> Any:
    shape = peer.GPTConfig(
        block_size=config.data.context,
        vocab_size=config.model.vocab_size,
        n_layer=layers,
        n_head=config.model.heads,
        n_embd=config.model.d_model,
        dropout=0.0,
        bias=False,
    )
    with device:
        return peer.GPT(shape)


def _update(
    model: Any, config: JobConfig, windows: Tensor, micro_batch: int, device: torch.device
) -> Callable[[], Tensor]:
    """Its update: passes under autocast, their gradients added up, clipped, fused AdamW."""
    train = config.train
    optimizer = model.configure_optimizers(
        train.weight_decay, train.peak_lr, (train.beta1, train.beta2), device.type
    )
    forward = torch.compile(model) if device.type == "cuda" else model
    parts = [
        (part[:, :-1].contiguous(), part[:, 1:].contiguous()) for part in torch.split(windows, micro_batch)
    ]

    def update() -> Tensor:
        for tokens, targets in parts:
            with torch.autocast(device.type, torch.bfloat16):
                _, loss = forward(tokens, targets)
                loss = loss / len(parts)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), train.clip_norm)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        last: Tensor = loss.detach()
        return last

    return update


@contextlib.contextmanager
def _its_settings() -> Iterator[None]:
    """float32 products may be TF32, as its train.py has them."""
    precision = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(precision)
