"""Text from a trained model, token by token, with a cache of keys and values.

The depth history is a token's own, so depth routing needs no cache of its own.
"""

from collections.abc import Iterator

import torch
from torch import Tensor

from headcount.trainer.errors import UserError
from headcount.trainer.model.attention import Attention, KeyValueCache
from headcount.trainer.model.transformer import Transformer


def generate(
    model: Transformer,
    prompt: Tensor,
    count: int,
    *,
    temperature: float = 0.0,
    seed: int = 0,
    cached: bool = True,
) -> Iterator[Tensor]:
    """`count` tokens [B] one after another, that continue the prompts [B, T], T ≥ 1.

    temperature: of the softmax that tokens are drawn from by `seed`; 0 takes the likeliest. Without a cache,
    as for streams that mix tokens, the whole text is computed for each token. Raises `UserError` where prompt
    and continuation are longer than the model's context.
    """
    context = model.rotation.shape[1]
    if not 1 <= prompt.shape[1] <= context - count + 1:
        raise UserError(
            f"a prompt of {prompt.shape[1]} tokens and {count} more do not fit: the model reads "
            f"{context} tokens, and a prompt has at least one"
        )
    generator = torch.Generator(prompt.device).manual_seed(seed)
    attentions = [module for module in model.modules() if isinstance(module, Attention)]
    cache = KeyValueCache() if cached and model.stream.per_token else None
    text = given = prompt
    for _ in range(count):
        with torch.inference_mode():
            for attention in attentions:
                attention.cache = cache
            try:
                start = 0
                if cache is not None:
                    start = cache.tokens
                    cache.begin_pass(given.shape[1])
                logits = model(given, start)[:, -1].float()
            finally:
                for attention in attentions:
                    attention.cache = None
            chosen = _choose(logits, temperature, generator)
            text = torch.cat((text, chosen.unsqueeze(1)), dim=1)
            given = text if cache is None else chosen.unsqueeze(1)
        yield chosen


def _choose(logits: Tensor, temperature: float, generator: torch.Generator) -> Tensor:
    if temperature == 0:
        return logits.argmax(-1)
    weights = torch.softmax(logits / temperature, dim=-1)
    return torch.multinomial(weights, 1, generator=generator).squeeze(1)
