"""Importer of Col2Im: blocks of an image, each a column, put where they belong."""

from __future__ import annotations

from math import prod

from autosched.graph.ops.shape import Reshape, Transpose
from autosched.onnx.importer.site import Site, UnsupportedError


def import_col2im(site: Site) -> None:
    """Col2Im of blocks that cover the image once: a transpose between two views."""
    image, block = site.integers(1, "image_shape"), site.integers(2, "block_shape")
    assert image is not None and block is not None  # the checker has seen to it
    rank = len(block)
    strides = tuple(site.attributes.get("strides", (1,) * rank))
    spread = any(d != 1 for d in site.attributes.get("dilations", ()))
    padded = any(site.attributes.get("pads", ()))
    whole = all(n % b == 0 for n, b in zip(image, block, strict=True))
    if strides != block or spread or padded or not whole:
        raise UnsupportedError(f"blocks of {block} at a distance of {strides} in {image}")
    batch, columns, _ = site.type(0).shape
    channels = columns // prod(block)
    counts = tuple(n // b for n, b in zip(image, block, strict=True))
    split = site.step(Reshape((batch, channels, *block, *counts)), [site.input(0)])
    pairs = [d for axis in range(rank) for d in (2 + rank + axis, 2 + axis)]
    turned = site.step(Transpose((0, 1, *pairs)), [split])
    site.emit(Reshape((batch, channels, *image)), [turned])
