"""One update of a model: the gradient of the mean token loss, clipped, then AdamW.

On a GPU the update is two or three CUDA graphs: a pass forward and backward over a micro-batch, one over the
last micro-batch where that is smaller, and what follows the last pass.
"""

import math
from typing import Any

import torch
from torch import Tensor

from headcount.trainer.config import JobConfig, TrainConfig
from headcount.trainer.execution import Execution, batch_windows
from headcount.trainer.graphs import GraphError, Graphs
from headcount.trainer.model.transformer import Transformer
from headcount.trainer.optimizer import build_optimizer, restore_moments, set_learning_rate
from headcount.trainer.team.leader import add_up


def updater_for(model: Transformer, config: JobConfig, execution: Execution, micro_batch: int) -> "Updater":
    """The updater of a job whose model is on its device. The CPU and float32 take the plain form."""
    on_gpu = model.embedding.is_cuda
    return Updater(
        model,
        config.train,
        context=config.data.context,
        windows=batch_windows(config),
        micro_batch=micro_batch,
        processes=execution.gpus,
        compile=on_gpu and execution.compile and model.compute_dtype == torch.bfloat16,
        graphs=on_gpu and execution.graphs,
    )


class Updater:
    """Updates `model` in place, `micro_batch` of the update's `windows` at a time.

    Each of several `processes` takes an equal part of the windows; their group adds up the gradients.

    Nothing here waits for the device. `compile` and `graphs` are for a GPU; `obstacle` says why there are no
    graphs where they were asked for.
    """

    def __init__(
        self,
        model: Transformer,
        train: TrainConfig,
        *,
        context: int,
        windows: int,
        micro_batch: int,
        processes: int = 1,
        compile: bool = False,
        graphs: bool = False,
    ) -> None:
        self.model, self.train, self.micro_batch = model, train, micro_batch
        self.device = model.embedding.device
        self.tokens, self.processes = windows * context, processes
        self.matrices = model.speed_up(compile=True) if compile else None
        self.in_place = compile or graphs
        self.optimizer = build_optimizer(model, train)
        self.loss, self.norm = (torch.zeros((), device=self.device) for _ in range(2))
        self.graphs: Graphs | None = None
        self.obstacle: str | None = None
        if graphs:
            share = windows // processes
            sizes = {min(micro_batch, share), share % micro_batch} - {0}
            self._capture([torch.zeros(n, context + 1, dtype=torch.int64) for n in sorted(sizes)])

    def update(self, windows: Tensor, rate: float) -> tuple[Tensor, Tensor]:
        """One update at the learning rate `rate`: the mean token loss before it and the gradient's norm
        before clipping, both on the device.

        windows: [n, context + 1] tokens, on the CPU; this process's part of them.
        """
        set_learning_rate(self.optimizer, rate)
        self.loss.zero_()
        if self.graphs is not None:
            with self.graphs.on_stream():
                for part in torch.split(windows.pin_memory(), self.micro_batch):
                    self.graphs.replay(self._pass, part)
                self._add_up()
                self.graphs.replay(self._finish)
        else:
            for part in torch.split(windows.to(self.device), self.micro_batch):
                self._pass(part)
            self._add_up()
            self._finish()
        return self.loss.clone(), self.norm.clone()

    def environment(self) -> dict[str, Any]:
        """How updates are computed, as far as that may change bits or speed."""
        return {"compiled": self.matrices is not None, "graphs": self.obstacle or self.graphs is not None}

    def state(self) -> dict[str, Any]:
        """The weights and the optimizer's moments, for a checkpoint."""
        return {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}

    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave, in place: graphs know tensors by their addresses."""
        self.model.load_state_dict(state["model"])
        restore_moments(self.optimizer, state["optimizer"])
        if self.matrices is not None:
            self.matrices.renew()

    def _pass(self, windows: Tensor) -> None:
        self.loss += self.model.add_gradient(windows, self.tokens, self.train.z_loss)

    def _add_up(self) -> None:
        """Gradients and loss, over the processes."""
        if self.processes == 1:
            return
        joint = {id(weight) for weight in self.matrices.weights} if self.matrices else set()
        apart = [p.grad for p in self.model.parameters() if p.grad is not None and id(p) not in joint]
        add_up([self.matrices.gradient] if self.matrices else [], [self.loss, *apart])

    def _finish(self) -> None:
        """Clip, update, and leave all gradients at zero."""
        parameters = self.model.parameters()
        self.norm.copy_(torch.nn.utils.clip_grad_norm_(parameters, self.train.clip_norm or math.inf))
        self.optimizer.step()
        self._clear()
        if self.matrices is not None:
            self.matrices.renew()

    def _clear(self) -> None:
        """Gradients to zero, in place; without graphs or working copies there is no need to keep them."""
        if not self.in_place:
            self.optimizer.zero_grad()
        elif gradients := [p.grad for p in self.model.parameters() if p.grad is not None]:
            torch._foreach_zero_(gradients)

    def _capture(self, batches: list[Tensor]) -> None:
        """Capture the passes and what follows them, leaving the model as it was."""
        graphs = Graphs(self.device)
        try:
            for batch in batches:
                graphs.capture(self._pass, batch.to(self.device), prepare=self._clear)
            self._clear()
            # at a rate of 0 and with gradients of 0, AdamW makes its moments and changes no weight
            graphs.capture(self._finish, prepare=lambda: set_learning_rate(self.optimizer, 0.0))
            self.graphs = graphs
        except GraphError as error:
            self.obstacle = str(error)
            self._clear()
        for moments in self.optimizer.state.values():
            moments["step"].zero_()
