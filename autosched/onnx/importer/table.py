"""The table: which function imports each ONNX operator.

Operators of a domain of their own are listed as ``"domain.Operator"``.
"""

from collections.abc import Callable, Mapping
from typing import Final

from autosched.onnx.importer.activation import IMPORT_ACTIVATION
from autosched.onnx.importer.columns import import_col2im
from autosched.onnx.importer.contrib.table import IMPORT_CONTRIB
from autosched.onnx.importer.convolution import IMPORT_CONVOLUTION
from autosched.onnx.importer.dft import import_dft
from autosched.onnx.importer.dynamic_quantize import import_dynamic_quantize
from autosched.onnx.importer.einsum import import_einsum
from autosched.onnx.importer.elementwise import IMPORT_ELEMENTWISE
from autosched.onnx.importer.gather import IMPORT_GATHER
from autosched.onnx.importer.grid_sample import import_grid_sample
from autosched.onnx.importer.matmul import import_gemm, import_matmul
from autosched.onnx.importer.movement import IMPORT_MOVEMENT
from autosched.onnx.importer.norm import IMPORT_NORM
from autosched.onnx.importer.pad import import_pad
from autosched.onnx.importer.pooling import IMPORT_POOLING
from autosched.onnx.importer.quantize import IMPORT_QUANTISED
from autosched.onnx.importer.recurrent import IMPORT_RECURRENT
from autosched.onnx.importer.reduction import IMPORT_POSITIONS, IMPORT_REDUCE
from autosched.onnx.importer.resize import IMPORT_RESIZE
from autosched.onnx.importer.rotary import import_rotary_embedding
from autosched.onnx.importer.scatter import import_scatter_elements, import_scatter_points
from autosched.onnx.importer.shape import (
    import_concat,
    import_flatten,
    import_reshape,
    import_squeeze,
    import_transpose,
    import_unsqueeze,
)
from autosched.onnx.importer.site import Site
from autosched.onnx.importer.softmax import IMPORT_SOFTMAX
from autosched.onnx.importer.stft import import_stft
from autosched.onnx.importer.top_k import import_top_k

IMPORTERS: Final[Mapping[str, Callable[[Site], None]]] = {
    **IMPORT_ELEMENTWISE,
    **IMPORT_ACTIVATION,
    **IMPORT_NORM,
    **IMPORT_POOLING,
    **IMPORT_POSITIONS,
    **IMPORT_CONTRIB,
    **IMPORT_QUANTISED,
    **IMPORT_RECURRENT,
    **IMPORT_REDUCE,
    **IMPORT_MOVEMENT,
    **IMPORT_GATHER,
    **IMPORT_CONVOLUTION,
    **IMPORT_RESIZE,
    **IMPORT_SOFTMAX,
    "Col2Im": import_col2im,
    "Concat": import_concat,
    "DFT": import_dft,
    "DynamicQuantizeLinear": import_dynamic_quantize,
    "Einsum": import_einsum,
    "Flatten": import_flatten,
    "Gemm": import_gemm,
    "GridSample": import_grid_sample,
    "MatMul": import_matmul,
    "Pad": import_pad,
    "Reshape": import_reshape,
    "RotaryEmbedding": import_rotary_embedding,
    "STFT": import_stft,
    "Scatter": import_scatter_elements,  # its name before opset 11
    "ScatterElements": import_scatter_elements,
    "ScatterND": import_scatter_points,
    "Squeeze": import_squeeze,
    "TopK": import_top_k,
    "Transpose": import_transpose,
    "Unsqueeze": import_unsqueeze,
}
