"""PyTorch compiled by Inductor, with weights frozen (and so pre-packed for oneDNN)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.contender import Prepared
from benchmarks.workloads import IntegerConv, IntegerMatmul, Workload


@dataclass(frozen=True, slots=True)
class TorchInductor:
    """Needs a C++ compiler on the machine."""

    name: str = "torch_inductor"

    def supports(self, workload: Workload) -> bool:
        return not isinstance(workload, IntegerMatmul | IntegerConv)

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile; gradients are off in this process, which freezing requires."""
        import torch
        import torch._inductor.config as inductor

        from benchmarks.rivals.torch_models import configure, torch_model

        configure(threads)
        inductor.freezing = True
        torch.set_grad_enabled(False)
        model = torch_model(workload)
        compiled = torch.compile(model.module)
        latest: list[Any] = [None]

        def run() -> None:
            latest[0] = compiled(*model.inputs)

        return Prepared(run, lambda: model.arrays(latest[0]), note="channels_last, frozen")
