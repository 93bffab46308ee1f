"""Importer of STFT: transforms of overlapping frames, with a window."""

from __future__ import annotations

import numpy as np

from autosched.graph.errors import GraphError
from autosched.graph.ops.gather import Gather
from autosched.graph.ops.shape import Reshape
from autosched.graph.spectrum import Transform, transform_rows
from autosched.onnx.importer.site import Site, UnsupportedError
from autosched.onnx.importer.site_parts import SiteParts

_SIGNAL_RANK = 2  # without a last dimension of one real, or of real and imaginary part


def import_stft(site: Site) -> None:
    """STFT of real or complex signals, with frames and a window that are known."""
    kind = site.type(0)
    step, window, given = (site.constant(index) for index in (1, 2, 3))
    lengths = [int(given.item())] if given is not None else []
    lengths += [window.size] if window is not None else []
    if step is None or not lengths:
        raise UnsupportedError("frames of no known length")
    length = lengths[0]
    parts = 1 if len(kind.shape) == _SIGNAL_RANK else kind.shape[-1]
    onesided = bool(site.attributes.get("onesided", 1))
    batch, extent, hop = *kind.shape[:2], int(step.item())
    if kind.dtype not in ("float32", "float64") or parts > 2 or (onesided and parts == 2):
        raise UnsupportedError(f"signals {kind}, {'one side' if onesided else 'both sides'}")
    if hop < 1 or not 1 <= length <= extent or length != lengths[-1]:
        raise UnsupportedError(f"frames of {length} numbers every {hop}, of {extent}")
    results = length // 2 + 1 if onesided else length
    frames = 1 + (extent - length) // hop
    signal = site.step(Reshape((batch, extent, parts)), [site.input(0)])
    places = np.arange(frames)[:, None] * hop + np.arange(length)
    read = site.step(Gather(1), [signal, site.add_constant("places", places)])
    rows = site.step(Reshape((batch * frames, length, parts)), [read])
    transform = Transform(length, length, results, parts, window=window)
    try:
        found = transform_rows(SiteParts(site), rows, transform)
    except GraphError as error:
        raise UnsupportedError(str(error)) from error
    site.emit(Reshape((batch, frames, results, 2)), [found])
