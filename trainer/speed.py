"""How fast an attempt trains."""

import math

import torch

from headcount.trainer.config import JobConfig
from headcount.trainer.flops import flops_per_token, peak_flops


class Speed:
    """Tokens and seconds of updates. An attempt's first update, which compiles and allocates, is apart."""

    def __init__(self) -> None:
        self._tokens, self._seconds = 0, 0.0
        self._recent_tokens, self._recent_seconds = 0, 0.0
        self._first: float | None = None

    @property
    def is_unknown(self) -> bool:
        """No update has been added yet."""
        return self._first is None

    def add(self, tokens: int, seconds: float, since_start: float) -> None:
        """Updates that are done, on the device too. `since_start`: seconds since the attempt began."""
        self._recent_tokens += tokens
        self._recent_seconds += seconds
        if self._first is None:
            self._first = since_start
        else:
            self._tokens += tokens
            self._seconds += seconds

    def recent(self) -> float:
        """Tokens a second since this was asked last."""
        rate = self._recent_tokens / self._recent_seconds
        self._recent_tokens, self._recent_seconds = 0, 0.0
        return rate

    @property
    def tokens_per_second(self) -> float | None:
        """None before the second update."""
        return self._tokens / self._seconds if self._tokens else None

    def measurements(self, batch_tokens: int) -> dict[str, float | None]:
        """`step_seconds` is the mean of an update, `first_update_seconds` from the attempt's start."""
        rate = self.tokens_per_second
        return {
            "tokens_per_second": rate,
            "step_seconds": batch_tokens / rate if rate else None,
            "first_update_seconds": self._first,
        }


def utilisation(
    config: JobConfig, tokens_per_second: float | None, device: torch.device, gpus: int = 1
) -> float | None:
    """Model FLOPs utilisation: the job's operations a second (`flops_per_token` · tokens a second, nothing
    recomputed counted) as a share of the cards' dense bf16 peak; None where that is not known."""
    if device.type != "cuda" or tokens_per_second is None:
        return None
    peak = peak_flops(torch.cuda.get_device_name(device))
    return None if peak is None else flops_per_token(config) * tokens_per_second / (gpus * peak)


def bits_per_byte(nats_per_token: float | None, bytes_per_token: float | None) -> float | None:
    """Loss by text instead of tokens, comparable across tokenizers; None where either is not known."""
    if nats_per_token is None or bytes_per_token is None:
        return None
    return nats_per_token / math.log(2) / bytes_per_token
