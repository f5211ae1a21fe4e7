"""A trained model and its tokenizer as lm-eval asks them: log-likelihoods, and text up to a stop."""

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from lm_eval.api.instance import Instance
from lm_eval.api.model import TemplateLM
from lm_eval.models.utils import normalize_gen_kwargs, postprocess_generated_text
from lm_eval.utils import get_rolling_token_windows, make_disjoint_window
from torch import Tensor

from headcount.trainer.data.tokenizer import Tokenizer
from headcount.trainer.errors import Stopped, UserError
from headcount.trainer.generation import generate
from headcount.trainer.model.transformer import Transformer

BATCH_TOKENS = 16_384
"""Of one pass, padding included; a longer window is a pass of its own."""

_SAMPLING = {"until", "max_gen_toks", "do_sample", "temperature"}

TokenRequest = tuple[tuple[str, str] | None, list[int], list[int]]
"""The texts, which lm-eval uses as a key, and the tokens of context and continuation."""


class DownstreamModel(TemplateLM):  # type: ignore[misc]  # lm-eval has no types
    """Texts are read in the tokens of the model's data set, whose separator stands before an empty context.

    What does not fit the model's context is cut from the left. Raises `UserError` for a request of a task
    that the model cannot answer, and `Stopped` where `stop()`, asked before each pass, is true.
    """

    def __init__(
        self, model: Transformer, tokenizer: Tokenizer, stop: Callable[[], bool] = lambda: False
    ) -> None:
        super().__init__()
        self._stop = stop
        self.model = model
        self.words = tokenizer
        self.context = model.rotation.shape[1]
        self._device = model.embedding.device

    @property
    def eot_token_id(self) -> int:
        return self.words.separator

    def tok_encode(self, string: str, add_special_tokens: bool | None = None, **_: Any) -> list[int]:
        return [int(token) for token in self.words.encode(string.encode())]

    def loglikelihood_rolling(self, requests: list[Instance], disable_tqdm: bool = False) -> list[float]:
        """Of whole texts, in windows that do not overlap: every token is predicted once."""
        windows: list[TokenRequest] = []
        owners: list[int] = []
        for place, request in enumerate(requests):
            rolling = get_rolling_token_windows(
                self.tok_encode(request.args[0]), self.prefix_token_id, self.context, context_len=1
            )
            for window in rolling:
                windows.append((None, *make_disjoint_window(window)))
                owners.append(place)
        totals = [0.0] * len(requests)
        for place, (found, _) in zip(owners, self._loglikelihood_tokens(windows), strict=True):
            totals[place] += found
        return totals

    def _loglikelihood_tokens(self, requests: list[TokenRequest], **_: Any) -> list[tuple[float, bool]]:
        """Log-likelihood in nats of each continuation, and whether each of its tokens is the likeliest."""
        texts = [self._window(context, continuation) for _, context, continuation in requests]
        order = sorted(range(len(texts)), key=lambda n: -len(texts[n]))
        answers: dict[int, tuple[float, bool]] = {}
        while order:
            rows = max(1, BATCH_TOKENS // len(texts[order[0]]))
            batch, order = order[:rows], order[rows:]
            hidden = self._hidden([texts[n][:-1] for n in batch])
            for row, n in zip(hidden, batch, strict=True):
                answers[n] = self._score(row[: len(texts[n]) - 1], requests[n][2])
        return [answers[n] for n in range(len(requests))]

    def generate_until(self, requests: list[Instance], disable_tqdm: bool = False) -> list[str]:
        """Each request's text, up to the first of its stops or the separator."""
        return [self._continue(*request.args, seed=n) for n, request in enumerate(requests)]

    def _window(self, context: list[int], continuation: list[int]) -> list[int]:
        if not 1 <= len(continuation) <= self.context:
            raise UserError(
                f"a task asks for a continuation of {len(continuation)} tokens; the model reads 1 to "
                f"{self.context}: leave the task out, or train with a longer data.context"
            )
        return (context + continuation)[-(self.context + 1) :]

    def _hidden(self, inputs: list[list[int]]) -> Tensor:
        """[B, longest, d_model]. Padding stands after a text, and streams are causal: nothing reads it."""
        self._check_stop()
        longest = max(map(len, inputs))
        padded = torch.tensor([text + [0] * (longest - len(text)) for text in inputs], device=self._device)
        with torch.inference_mode():
            return self.model.hidden(padded)

    def _score(self, hidden: Tensor, continuation: list[int]) -> tuple[float, bool]:
        with torch.inference_mode():
            logits = F.linear(hidden[-len(continuation) :], self.model.head_weight.to(hidden.dtype))
            exact = torch.promote_types(logits.dtype, torch.float32)
            target = torch.tensor(continuation, device=self._device)
            found = torch.log_softmax(logits, dim=-1, dtype=exact).gather(1, target.unsqueeze(1)).sum()
            return float(found), bool((logits.argmax(-1) == target).all())

    def _continue(self, prompt: str, asked: dict[str, Any], *, seed: int) -> str:
        how = normalize_gen_kwargs(asked)
        unknown = how.keys() - _SAMPLING
        if how["do_sample"] and unknown:
            raise UserError(
                f"a task draws its text by {', '.join(sorted(unknown))}; we draw by temperature alone"
            )
        room = self.context - how["max_gen_toks"]
        if room < 1:
            raise UserError(
                f"a task writes up to {how['max_gen_toks']} tokens after its prompt; the model reads "
                f"{self.context} in all"
            )
        given = (self.tok_encode(prompt) or [self.prefix_token_id])[-room:]
        temperature = how["temperature"] if how["do_sample"] else 0.0
        tokens = torch.tensor([given], device=self._device)
        found: list[int] = []
        text = ""
        for token in generate(self.model, tokens, how["max_gen_toks"], temperature=temperature, seed=seed):
            self._check_stop()
            if int(token) == self.words.separator:
                break
            found.append(int(token))
            text = self.words.decode(found).decode("utf-8", "replace")
            if any(stop and stop in text for stop in how["until"]):
                break
        cut: str = postprocess_generated_text(text, how["until"], think_end_token=None)
        return cut

    def _check_stop(self) -> None:
        if self._stop():
            raise Stopped
