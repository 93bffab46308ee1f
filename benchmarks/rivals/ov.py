"""OpenVINO: latency mode, one stream, pinned threads, the precision forced."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import Any

from benchmarks.contender import Prepared
from benchmarks.onnx_models import onnx_model
from benchmarks.workloads import Conv, IntegerConv, Workload


@dataclass(frozen=True, slots=True)
class OpenVino:
    """Convolutions get NHWC inputs and outputs, which it prefers for single operators.

    ``precision``: of its arithmetic, as OpenVINO calls it: f32 or bf16.
    """

    name: str = "openvino"
    precision: str = "f32"

    def supports(self, workload: Workload) -> bool:
        return True

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Compile, check that the precision is in force, and share the input buffers."""
        import openvino

        core = openvino.Core()
        model = core.read_model(io.BytesIO(onnx_model(workload)))
        convolution = isinstance(workload, Conv | IntegerConv)
        if convolution:
            model = _with_nhwc(model)
        compiled = core.compile_model(
            model,
            "CPU",
            {
                "PERFORMANCE_HINT": "LATENCY",
                "INFERENCE_NUM_THREADS": threads,
                "NUM_STREAMS": 1,
                "INFERENCE_PRECISION_HINT": self.precision,
                "ENABLE_CPU_PINNING": True,
            },
        )
        precision = compiled.get_property("INFERENCE_PRECISION_HINT").get_type_name()
        if precision != self.precision:
            raise AssertionError(f"OpenVINO runs in {precision}, asked for {self.precision}")
        request = compiled.create_infer_request()
        arrays = workload.arrays()
        for port in compiled.inputs:
            (name,) = arrays.keys() & port.get_names()  # others are of casts that it took away
            request.set_tensor(port, openvino.Tensor(arrays[name], shared_memory=True))

        def run() -> None:
            request.start_async()
            request.wait()

        def outputs() -> dict[str, Any]:
            ports = zip(workload.outputs, compiled.outputs, strict=True)
            return {name: request.get_tensor(port).data for name, port in ports}

        note = f"NHWC, {precision}" if convolution else precision
        return Prepared(run, outputs, note, keep_alive=arrays)  # the tensors share its memory


def _with_nhwc(model: Any) -> Any:
    from openvino import Layout
    from openvino.preprocess import PrePostProcessor

    steps = PrePostProcessor(model)
    steps.input().tensor().set_layout(Layout("NHWC"))
    steps.input().model().set_layout(Layout("NCHW"))
    steps.output().tensor().set_layout(Layout("NHWC"))
    steps.output().model().set_layout(Layout("NCHW"))
    return steps.build()
