"""The table: which function imports each ONNX operator (default domain)."""

from collections.abc import Callable, Mapping
from typing import Final

from autosched.onnx_import.activation import IMPORT_ACTIVATION
from autosched.onnx_import.convolution import IMPORT_CONVOLUTION
from autosched.onnx_import.elementwise import IMPORT_ELEMENTWISE
from autosched.onnx_import.gather import IMPORT_GATHER
from autosched.onnx_import.matmul import import_gemm, import_matmul
from autosched.onnx_import.movement import IMPORT_MOVEMENT
from autosched.onnx_import.norm import IMPORT_REDUCE, import_batch_norm, import_softmax
from autosched.onnx_import.shape import (
    import_concat,
    import_flatten,
    import_pad,
    import_reshape,
    import_squeeze,
    import_transpose,
    import_unsqueeze,
)
from autosched.onnx_import.site import Site
from autosched.onnx_import.windows import (
    import_average_pool,
    import_global_average_pool,
    import_global_max_pool,
    import_max_pool,
)

IMPORTERS: Final[Mapping[str, Callable[[Site], None]]] = {
    **IMPORT_ELEMENTWISE,
    **IMPORT_ACTIVATION,
    **IMPORT_REDUCE,
    **IMPORT_MOVEMENT,
    **IMPORT_GATHER,
    **IMPORT_CONVOLUTION,
    "AveragePool": import_average_pool,
    "BatchNormalization": import_batch_norm,
    "Concat": import_concat,
    "Flatten": import_flatten,
    "Gemm": import_gemm,
    "GlobalAveragePool": import_global_average_pool,
    "GlobalMaxPool": import_global_max_pool,
    "MatMul": import_matmul,
    "MaxPool": import_max_pool,
    "Pad": import_pad,
    "Reshape": import_reshape,
    "Softmax": import_softmax,
    "Squeeze": import_squeeze,
    "Transpose": import_transpose,
    "Unsqueeze": import_unsqueeze,
}
