"""onnxruntime: all graph optimisations, one pinned intra-op thread a core, bound buffers."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from benchmarks.contender import Prepared
from benchmarks.onnx_models import onnx_model, to_nchw, to_nhwc
from benchmarks.workloads import Conv, IntegerConv, Workload

_DTYPES: Final = {"float": "float32", "double": "float64"}  # others are called as NumPy's


@dataclass(frozen=True, slots=True)
class OnnxRuntime:
    """Its preferred layout is NCHW: it re-orders to its blocked layout inside."""

    name: str = "onnxruntime"

    def supports(self, workload: Workload) -> bool:
        return True

    def prepare(self, workload: Workload, threads: int) -> Prepared:
        """Bind inputs and outputs once, so that a run copies nothing."""
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_ALL
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        cores = sorted(os.sched_getaffinity(0))
        if threads > 1:  # the calling thread is the first one; cores count from 1 here
            affinities = ";".join(str(core + 1) for core in cores[1:threads])
            options.add_session_config_entry("session.intra_op_thread_affinities", affinities)
        session = onnxruntime.InferenceSession(
            onnx_model(workload), options, providers=["CPUExecutionProvider"]
        )
        os.sched_setaffinity(0, cores[:1])
        convolution = isinstance(workload, Conv | IntegerConv)
        arrays = workload.arrays()
        binding = session.io_binding()
        for value in session.get_inputs():
            array = to_nchw(arrays[value.name]) if convolution else arrays[value.name]
            dense = np.asarray(array, order="C")
            binding.bind_ortvalue_input(value.name, onnxruntime.OrtValue.ortvalue_from_numpy(dense))
        for value in session.get_outputs():
            binding.bind_ortvalue_output(
                value.name,
                onnxruntime.OrtValue.ortvalue_from_shape_and_type(value.shape, _dtype(value.type)),
            )
        names = [value.name for value in session.get_outputs()]

        def outputs() -> dict[str, Any]:
            values = dict(zip(names, binding.copy_outputs_to_cpu(), strict=True))
            return {n: to_nhwc(v) if convolution else v for n, v in values.items()}

        return Prepared(
            run=lambda: session.run_with_iobinding(binding),
            outputs=outputs,
            note="NCHW" if convolution else "",
        )


def _dtype(kind: str) -> str:
    """NumPy's name of ``tensor(...)``."""
    name = kind.removeprefix("tensor(").removesuffix(")")
    return _DTYPES.get(name, name)
