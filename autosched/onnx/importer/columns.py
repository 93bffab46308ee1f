"""Importer of Col2Im: blocks of an image, each a column, added where they belong."""

from __future__ import annotations

from autosched.graph.ops.columns import Fold, steps_of_fold
from autosched.onnx.importer.site import Site


def import_col2im(site: Site) -> None:
    """Col2Im, in any number of dimensions."""
    image, block = site.integers(1, "image_shape"), site.integers(2, "block_shape")
    assert image is not None and block is not None  # the checker has seen to it
    rank = len(block)
    fold = Fold(
        image,
        block,
        tuple(site.attributes.get("strides", (1,) * rank)),
        tuple(site.attributes.get("pads", (0,) * (2 * rank))),
        tuple(site.attributes.get("dilations", (1,) * rank)),
    )
    *first, last = steps_of_fold(fold, site.type(0).shape)
    value = site.input(0)
    for op in first:
        value = site.step(op, [value])
    site.emit(last, [value])
