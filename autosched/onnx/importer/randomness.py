"""Operators whose results are drawn anew in each run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import onnx
from numpy.typing import NDArray

from autosched.host.domains import CONTRIB
from autosched.host.node_names import walk
from autosched.onnx.importer.domains import DEFAULT_DOMAINS

_RANDOM: Final = frozenset(
    (
        "RandomNormal",
        "RandomUniform",
        "RandomNormalLike",
        "RandomUniformLike",
        "Bernoulli",
        "Multinomial",
    )
)
# Of onnxruntime's own: what generates text, and dropouts of training.
_RANDOM_CONTRIB: Final = frozenset(
    ("Sampling", "BiasDropout", "BitmaskBiasDropout", "BitmaskDropout")
)


def random_operator(
    nodes: Iterable[onnx.NodeProto], arrays: Mapping[str, NDArray[Any]]
) -> str | None:
    """The first operator among ``nodes``, nested ones included, that is random; None without."""
    for node in walk(nodes):
        if node.domain in DEFAULT_DOMAINS and (
            node.op_type in _RANDOM or (node.op_type == "Dropout" and _in_training(node, arrays))
        ):
            return str(node.op_type)
        if node.domain == CONTRIB and node.op_type in _RANDOM_CONTRIB:
            return str(node.op_type)
    return None


def _in_training(node: onnx.NodeProto, arrays: Mapping[str, NDArray[Any]]) -> bool:
    """Whether a dropout may drop anything: its third input says so, or is not known."""
    if len(node.input) < 3 or not node.input[2]:
        return False
    mode = arrays.get(node.input[2])
    ratio = arrays.get(node.input[1])
    never = (mode is not None and not mode.any()) or (ratio is not None and not ratio.any())
    return not never
