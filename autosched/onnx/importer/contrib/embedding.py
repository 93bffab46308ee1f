"""Importers of embeddings that are summed and normalised."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from autosched.graph.ops.reduce import ReduceOp
from autosched.onnx.importer.composer import Composer, Importer, check_attributes
from autosched.onnx.importer.contrib.norm import normalised
from autosched.onnx.importer.contrib.quantized import dequantised
from autosched.onnx.importer.site import Site

_VALUES: Final = range(2, 7)  # positions of three tables, then of the parameters of the norm
_MASK: Final = 7
# Of quantised ones: how far behind each value its scale and its zero point are.
_SCALE, _ZERO = 6, 11


def _import_embed_layer_norm(site: Site) -> None:
    """EmbedLayerNormalization: the norm of embeddings of words, positions and segments."""
    make = Composer(site)
    _emit_embedded(make, [make.given(n) for n in _VALUES], make.given(8))


def _import_quantised_embed_layer_norm(site: Site) -> None:
    """QEmbedLayerNormalization: as above, of tables and parameters that are bytes."""
    make = Composer(site)
    values = [
        dequantised(site, (n, n + _SCALE, n + _ZERO)) if site.has(n) else None for n in _VALUES
    ]
    _emit_embedded(make, values, None)


def _emit_embedded(make: Composer, values: Sequence[str | None], positions: str | None) -> None:
    """Emit the norm, how many words of each row the mask does not hide, and the sum.

    Args:
        make: of the node.
        values: tables of words, positions and segments, and parameters of the norm.
        positions: of the words; None: one after the other.
    """
    site = make.site
    check_attributes(site, ("epsilon", "mask_index_type"))
    words, places, segments, *parameters = values
    assert words is not None and places is not None  # the operator needs both
    if positions is None:
        rows = make.part(places, 0, 0, site.type(0).shape[1])
    else:
        rows = make.rows(places, positions)
    kinds = None if segments is None else make.rows(segments, site.input(1))
    total = make.sum(make.rows(words, site.input(0)), rows, kinds)
    make.emit(total, 2)
    scale, shift = (parameter or "" for parameter in parameters)
    make.emit(normalised(make, "LayerNormalization", [total, scale, shift]))
    if site.wants(1):
        site.emit(ReduceOp("sum", (1,)), [_mask(make)], 1)


def _mask(make: Composer) -> str:
    """The mask of words, zeros if there is none."""
    mask = make.given(_MASK)
    if mask is not None:
        return mask
    words = make.site.input(0)
    return make.expand(make.number("none", 0, words), *make.shape(words))


IMPORT_EMBEDDING: Final[dict[str, Importer]] = {
    "EmbedLayerNormalization": _import_embed_layer_norm,
    "QEmbedLayerNormalization": _import_quantised_embed_layer_norm,
}
