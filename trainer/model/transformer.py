"""The transformer: pre-norm sublayers that read from and write to a residual stream."""

from importlib import import_module

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headcount.trainer.config import ModelConfig
from headcount.trainer.model.attention import Attention
from headcount.trainer.model.drawing import draw_parameters
from headcount.trainer.model.flex import causal_blocks
from headcount.trainer.model.head import add_head_gradient, head_gradient, token_losses
from headcount.trainer.model.layers import MLP, Linear, RMSNorm, Working
from headcount.trainer.model.products import Matrix, WorkingMatrices
from headcount.trainer.model.rotary import rotary_angles
from headcount.trainer.residuals.interface import ResidualStream, State

CPU = torch.device("cpu")


class Block(nn.Module):
    """Two sublayers, at two sites of the residual stream."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.mlp = MLP(config)

    def forward(self, stream: ResidualStream, state: State, site: int, rotation: Tensor) -> None:
        stream.write(state, site, stream.attend(state, site, self.attention, rotation))
        stream.write(state, site + 1, self.mlp(stream.read(state, site + 1), stream.place(state)))


class Transformer(nn.Module):
    """A language model over `config.vocab_size` tokens, its embedding tied to its head or not.

    Weights are drawn from `seed`, each by its own name, so that models which share a name and shape share the
    weight, whatever their residual stream; without a seed they are left to be loaded. `context` is the
    longest window it can read.
    """

    unembedding: nn.Parameter | None
    rotation: Tensor

    def __init__(
        self, config: ModelConfig, context: int, seed: int | None, device: torch.device = CPU
    ) -> None:
        super().__init__()
        with device:
            self.embedding = nn.Parameter(torch.empty(config.vocab_size, config.d_model))
            own = nn.Parameter(torch.empty_like(self.embedding)) if config.unembedding == "own" else None
            self.register_parameter("unembedding", own)
            self.blocks = nn.ModuleList(Block(config) for _ in range(config.layers))
            self.norm = RMSNorm(config.d_model, config.norm_eps)
        self.stream = build_stream(config)
        self.register_buffer("rotation", rotary_angles(context, config), persistent=False)
        self.compute_dtype = torch.float32
        self.working: Working | None = None
        self.looked_up: Matrix | None = None
        self.to(device)
        if seed is not None:
            draw_parameters(self, self.stream, config.init_std, seed)

    @property
    def head_weight(self) -> nn.Parameter:
        """What turns hidden states to logits, [vocab_size, d_model]."""
        return self.embedding if self.unembedding is None else self.unembedding

    def forward(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Logits [B, T, vocab_size] for integer tokens [B, T], in `compute_dtype`; `start` as in `hidden`."""
        return F.linear(self.hidden(tokens, start), self.head_weight.to(self.compute_dtype))

    def hidden(self, tokens: Tensor, start: int = 0) -> Tensor:
        """What the head reads, normed: [B, T, d_model] in `compute_dtype` for integer tokens [B, T].

        start: the first token's position, above 0 where those before it are cached (`trainer.generation`).
        """
        state = self.stream.begin(self._look_up(tokens))
        rotation = self.rotation[:, start:].to(self.compute_dtype)
        for n in range(self.stream.loops * len(self.blocks)):
            self.blocks[n % len(self.blocks)](self.stream, state, 2 * n, rotation)
        normed: Tensor = self.norm(self.stream.finish(state))
        return normed

    def token_losses(self, windows: Tensor) -> Tensor:
        """Cross entropy in nats [B, T] of predicting each next token, for windows [B, T + 1]."""
        hidden = self.hidden(windows[:, :-1]).flatten(0, 1)
        weight = self.head_weight.to(self.compute_dtype)
        return token_losses(hidden, weight, windows[:, 1:].flatten()).view(len(windows), -1)

    def add_gradient(self, windows: Tensor, tokens: int, z_loss: float = 0.0) -> Tensor:
        """Add the gradient of what `trainer.model.head` minimises over windows [B, T + 1] to the parameters'.

        Returns the windows' share of the mean loss over `tokens` tokens, those of all passes of the update.
        """
        hidden = self.hidden(windows[:, :-1])
        rows, targets = hidden.flatten(0, 1), windows[:, 1:].flatten()
        if self.working is not None:
            product = self.working.product
            head = add_head_gradient(rows, product, len(self.head_weight), targets, tokens, z_loss)
        else:
            head = head_gradient(rows, self.head_weight.to(self.compute_dtype), targets, tokens, z_loss)
        gradients = [head.hidden.view_as(hidden)]
        roots = [hidden]
        if head.weight is not None:
            roots.append(self.head_weight)
            gradients.append(head.weight.to(self.head_weight.dtype))
        torch.autograd.backward(roots, gradients)
        return head.loss

    def speed_up(self, compile: bool) -> WorkingMatrices:
        """Take the form for training passes on a GPU: matrix products on working copies in `compute_dtype`,
        which the caller renews after each update, and with `compile` the rest of each sublayer by Inductor.
        """
        linears = [module.weight for module in self.modules() if isinstance(module, Linear)]
        looked_up = [] if self.head_weight is self.embedding else [self.embedding]
        matrices = WorkingMatrices([self.head_weight, *looked_up, *linears], self.compute_dtype)
        self.working = Working(matrices.matrix(self.head_weight), compile)
        self.looked_up = matrices.matrix(self.embedding)
        context, head_width = self.rotation.shape[1], 2 * self.rotation.shape[3]
        device = self.embedding.device
        blocks = causal_blocks(context, head_width, device, self.compute_dtype) if compile else None
        for module in self.modules():
            if isinstance(module, Linear):
                module.speed_up(matrices)
            elif isinstance(module, MLP):
                module.speed_up(matrices, compile)
            elif isinstance(module, Attention):
                module.speed_up(matrices, compile, blocks)
            elif isinstance(module, RMSNorm):
                module.compiled = compile
        return matrices

    def _look_up(self, tokens: Tensor) -> Tensor:
        if self.looked_up is not None and torch.is_grad_enabled():
            from headcount.trainer.model.lookup import look_up  # needs triton

            return look_up(tokens, self.embedding, self.looked_up)
        return F.embedding(tokens, self.embedding).to(self.compute_dtype)


def build_stream(config: ModelConfig) -> ResidualStream:
    """The residual stream that `config.residual` names."""
    stream: ResidualStream = import_module(f"headcount.trainer.residuals.{config.residual}").Stream(config)
    return stream
