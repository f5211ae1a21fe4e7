"""Every residual stream in every form, as fields of the model, and small models of them."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from headcount.trainer.config import JobConfig, job_from_fields
from headcount.trainer.model.transformer import Transformer

VARIANTS: dict[str, dict[str, Any]] = {
    "additive": {"residual": "additive"},
    "attention residuals": {"residual": "mhar"},
    "mhar": {"residual": "mhar", "routing_heads": 4},
    "mhar in blocks": {"residual": "mhar", "routing_heads": 2, "block_size": 3},
    "mhar, learned scale": {"residual": "mhar", "routing_heads": 2, "logit_scale_form": "per_head"},
    "mhar, spared queries": {"residual": "mhar", "routing_heads": 2, "query_decay": "spared"},
    "mhar_hw": {"residual": "mhar_hw", "routing_heads": 4},
    "mhar_hw, learned scale": {"residual": "mhar_hw", "routing_heads": 4, "logit_scale_form": "per_head"},
    "delta": {"residual": "delta", "routing_heads": 2},
    "delta in blocks": {"residual": "delta", "block_size": 2},
    "delta, learned scale": {"residual": "delta", "logit_scale_form": "per_head"},
    "hyper_connections, dynamic": {"residual": "hyper_connections"},
    "hyper_connections, static": {"residual": "hyper_connections", "connections": "static"},
    "hyper_connections, simplified": {"residual": "hyper_connections", "connections": "simplified"},
    "mhc": {"residual": "mhc"},
    "mhc, normal start": {"residual": "mhc", "mhc_init": "normal"},
    "frac_connections, dynamic": {"residual": "frac_connections"},
    "frac_connections, static": {"residual": "frac_connections", "connections": "static"},
    "denseformer": {"residual": "denseformer"},
    "value_residual": {"residual": "value_residual"},
    "value_residual, learned": {"residual": "value_residual", "value_mix": "learned"},
    "muddformer": {"residual": "muddformer"},
    "laurel rw": {"residual": "laurel", "laurel_form": "rw"},
    "laurel lr": {"residual": "laurel", "laurel_form": "lr", "laurel_rank": 4},
    "laurel pa": {"residual": "laurel", "laurel_form": "pa", "laurel_rank": 4},
    "laurel rw_lr": {"residual": "laurel", "laurel_form": "rw_lr", "laurel_rank": 4},
    "xhc": {"residual": "xhc"},
    "xhc, 8 streams": {"residual": "xhc", "streams": 8},
    "xhc_flash": {"residual": "xhc_flash"},
    "xhc_flash, 8 streams": {"residual": "xhc_flash", "streams": 8},
    "dar": {"residual": "dar", "block_size": 2},
    "dar, learned scale": {"residual": "dar", "block_size": 3, "logit_scale_form": "per_head"},
    "dar, spared queries": {"residual": "dar", "block_size": 2, "query_decay": "spared"},
    "wav": {"residual": "wav", "block_size": 3, "routing_heads": 2},
    "haares": {"residual": "haares", "block_size": 3, "routing_heads": 2},
    "haares, learned scale": {"residual": "haares", "block_size": 2, "logit_scale_form": "per_head"},
    "deeploop": {"residual": "deeploop"},
    "deeploop, 2 loops": {"residual": "deeploop", "loops": 2},
}

TINY = {"d_model": 16, "layers": 2, "heads": 4, "kv_heads": 2, "d_ff": 24, "vocab_size": 19}
TRAINING = {
    "data.context": 16,
    "train.batch_tokens": 64,
    "train.steps": 16,
    "train.eval_every": 2,
    "train.eval_windows": 2,
    "train.peak_lr": 1e-2,
}


def job(variant: Mapping[str, Any], seed: int = 0, **model: Any) -> JobConfig:
    """A job of two blocks of width 16; further fields of the model by name."""
    fields = {f"model.{name}": value for name, value in {**TINY, **variant, **model}.items()}
    return job_from_fields(fields | TRAINING, seed)


def build(config: JobConfig, dtype: torch.dtype = torch.float64) -> Transformer:
    model = Transformer(config.model, config.data.context, config.seed).to(dtype)
    model.compute_dtype = dtype
    return model


def perturb(model: Transformer, std: float = 0.2) -> Transformer:
    """Move every parameter, so that no start value hides a mistake."""
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for parameter in model.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter.add_(std * noise.to(parameter.dtype))
    return model


def tokens(config: JobConfig, windows: int = 2, length: int | None = None) -> Tensor:
    shape = (windows, length or config.data.context)
    return torch.randint(0, config.model.vocab_size, shape, generator=torch.Generator().manual_seed(1))


def kept_values(model: Transformer, inputs: Tensor) -> float:
    """Values a token that the forward pass keeps for the backward pass: each storage once, no parameter's."""
    own = {p.untyped_storage().data_ptr() for p in model.parameters()}
    kept: dict[int, torch.UntypedStorage] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        logits = model(inputs)
    size = logits.element_size() * inputs.numel()
    return sum(storage.nbytes() for address, storage in kept.items() if address not in own) / size
