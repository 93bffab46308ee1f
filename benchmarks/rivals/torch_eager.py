"""PyTorch eager: channels_last, inference mode."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.contender import Prepared
from benchmarks.workloads import IntegerConv, IntegerMatmul, Workload


@dataclass(frozen=True, slots=True)
class TorchEager:
    """Runs the module as it is."""

    name: str = "torch_eager"

    def supports(self, workload: Workload) -> bool:
        return not isinstance(workload, IntegerMatmul | IntegerConv)

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Build the module; inference mode stays on in this process."""
        import torch

        from benchmarks.rivals.torch_models import configure, torch_model

        configure(threads)
        model = torch_model(workload)
        latest: list[Any] = [None]

        def run() -> None:
            with torch.inference_mode():
                latest[0] = model.module(*model.inputs)

        return Prepared(run, lambda: model.arrays(latest[0]), note="channels_last")
