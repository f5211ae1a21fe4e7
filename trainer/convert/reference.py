"""What `transformers` computes from a folder, as the reference: also wholly in float64."""

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from headcount.trainer.convert.extras import optional


class InFloat64(TorchFunctionMode):
    """Makes float64 of every float32 that PyTorch is asked for inside.

    Models of transformers compute norms, rotary angles and the softmax in float32 whatever their weights are,
    which would hide all but the coarsest faults of a conversion.
    """

    def __torch_function__(
        self, function: Any, types: Any, arguments: Any = (), named: dict[str, Any] | None = None
    ) -> Any:
        if function is Tensor.float:
            function = Tensor.double
        named = {name: _lifted(value) for name, value in (named or {}).items()}
        return function(*map(_lifted, arguments), **named)


def _lifted(argument: Any) -> Any:
    return torch.float64 if argument is torch.float32 else argument


def reference_logits(
    folder: Path, tokens: Tensor, dtype: torch.dtype, *, trust_remote_code: bool = False
) -> Tensor:
    """[B, T, vocab_size] on the tokens' device."""
    model = load_reference(folder, tokens.device, dtype, trust_remote_code=trust_remote_code)
    with InFloat64() if dtype == torch.float64 else nullcontext():
        found: Tensor = model(tokens, use_cache=False).logits
    return found


def load_reference(
    folder: Path, device: torch.device, dtype: torch.dtype, *, trust_remote_code: bool = False
) -> Any:
    """The folder's model in evaluation, as `AutoModelForCausalLM` makes it."""
    auto = optional("transformers").AutoModelForCausalLM
    with InFloat64() if dtype == torch.float64 else nullcontext():
        model = auto.from_pretrained(
            folder,
            dtype=dtype,
            local_files_only=True,
            trust_remote_code=trust_remote_code,
            attn_implementation="eager",
        )
        return model.to(device).eval()
