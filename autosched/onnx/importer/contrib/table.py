"""The table of onnxruntime's operators, of its domain ``com.microsoft``."""

from collections.abc import Mapping
from typing import Final

from autosched.onnx.importer.composer import Importer
from autosched.onnx.importer.contrib.activation import IMPORT_BIASED
from autosched.onnx.importer.contrib.channels_last import IMPORT_CHANNELS_LAST
from autosched.onnx.importer.contrib.embedding import IMPORT_EMBEDDING
from autosched.onnx.importer.contrib.gather_blocks import import_gather_block_quantized
from autosched.onnx.importer.contrib.grouped_query import import_group_query_attention
from autosched.onnx.importer.contrib.multi_head import IMPORT_ATTENTION
from autosched.onnx.importer.contrib.narrow import import_matmul_nbits
from autosched.onnx.importer.contrib.norm import IMPORT_FUSED_NORM
from autosched.onnx.importer.contrib.products import IMPORT_PRODUCTS
from autosched.onnx.importer.contrib.quantized import IMPORT_QUANTIZED
from autosched.onnx.importer.contrib.recurrent import import_dynamic_quantize_lstm
from autosched.onnx.importer.contrib.rotary import import_rotary_embedding

_OPERATORS: Final[Mapping[str, Importer]] = {
    **IMPORT_ATTENTION,
    **IMPORT_BIASED,
    **IMPORT_CHANNELS_LAST,
    **IMPORT_EMBEDDING,
    **IMPORT_FUSED_NORM,
    **IMPORT_PRODUCTS,
    **IMPORT_QUANTIZED,
    "DynamicQuantizeLSTM": import_dynamic_quantize_lstm,
    "GatherBlockQuantized": import_gather_block_quantized,
    "GroupQueryAttention": import_group_query_attention,
    "MatMulNBits": import_matmul_nbits,
    "RotaryEmbedding": import_rotary_embedding,
}

IMPORT_CONTRIB: Final = {f"com.microsoft.{name}": f for name, f in _OPERATORS.items()}
