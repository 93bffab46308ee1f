"""oneDNN with pre-packed weights, through PyTorch's mkldnn operators; channels_last data.

It is what Inductor calls with frozen weights, without the generated code around it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from benchmarks.contender import Prepared
from benchmarks.workloads import Conv, Workload


@dataclass(frozen=True, slots=True)
class OneDnn:
    """Single convolutions, which is where oneDNN is the strongest rival."""

    name: str = "onednn"

    def supports(self, workload: Workload) -> bool:
        return isinstance(workload, Conv)

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Re-order the weights once into the form that oneDNN asks for."""
        import torch

        from benchmarks.rivals.torch_models import configure, torch_model

        assert isinstance(workload, Conv)
        configure(threads)
        torch.set_grad_enabled(False)
        model = torch_model(workload)
        data = model.inputs[0]
        padding, stride, dilation = [workload.padding] * 2, [workload.stride] * 2, [1, 1]
        packed = torch._C._nn.mkldnn_reorder_conv2d_weight(
            model.module.weight.to_mkldnn(), padding, stride, dilation, 1, list(data.shape)
        )
        convolution = torch.ops.mkldnn._convolution_pointwise
        latest: list[Any] = [None]

        def run() -> None:
            latest[0] = convolution(
                data, packed, None, padding, stride, dilation, 1, "none", [], ""
            )

        return Prepared(run, lambda: model.arrays(latest[0]), note="weights pre-packed")
