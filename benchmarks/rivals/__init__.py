"""The runtimes that autosched is compared with, one file each."""

from __future__ import annotations

from benchmarks.contender import Contender
from benchmarks.rivals.onednn import OneDnn
from benchmarks.rivals.ort import OnnxRuntime
from benchmarks.rivals.ov import OpenVino
from benchmarks.rivals.torch_eager import TorchEager
from benchmarks.rivals.torch_inductor import TorchInductor

RIVALS: tuple[Contender, ...] = (
    OpenVino(),
    OpenVino("openvino_bf16", "bf16"),
    OnnxRuntime(),
    OneDnn(),
    TorchEager(),
    TorchInductor(),
)
