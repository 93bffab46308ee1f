"""Complex tensors that are not made as a whole: parts of a spectrum, and numbers among zeros.

Of a spectrum a neural operator reads some frequencies, and it writes some into one of zeros: short
products are enough for both.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from autosched.torch_frontend.complex_numbers.pair import (
    both_of,
    pair_of_both,
    pair_of_source,
)
from autosched.torch_frontend.fourier_operator import fourier_operator


@dataclass(frozen=True, slots=True)
class Lines:
    """A transform along one dimension, of all that there is.

    Attributes:
        axis: the dimension, counted from the front.
        length: of the transform.
        results: how many of its results are wanted.
        inverse: whether it is the inverse one.
        scale: what results are multiplied with.
        real: whether results are real, and half of the spectrum is given.
        start: the place of the first number in the signal.
        first: the place of the first result in the spectrum.
    """

    axis: int
    length: int
    results: int
    inverse: bool = False
    scale: float = 1.0
    real: bool = False
    start: int = 0
    first: int = 0

    def of(self, both: Any) -> Any:
        """Transform ``[..., 1 or 2]``."""
        how = self.scale, self.inverse, self.real, self.start, self.first
        return fourier_operator()(both, self.axis, self.length, self.results, *how)


@dataclass(frozen=True, slots=True)
class Spectrum:
    """A transform, or a part of its results.

    Attributes:
        numbers: ``[..., 1 or 2]``, what is transformed.
        lines: one dimension after the other, each one once.
        known: results of the first ones that were made for other parts.
    """

    numbers: Any
    lines: tuple[Lines, ...]
    known: dict[tuple[Lines, ...], Any] = field(default_factory=dict, compare=False)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the complex tensor."""
        extents = list(self.numbers.shape[:-1])
        for lines in self.lines:
            extents[lines.axis] = lines.results
        return tuple(extents)

    @property
    def dtype(self) -> Any:
        """Of its parts."""
        return self.numbers.dtype

    def made(self) -> Any:
        """``[..., 2]``, real and imaginary parts."""
        both = self.numbers
        for count, lines in enumerate(self.lines, 1):
            done = self.lines[:count]
            if done not in self.known:
                self.known[done] = lines.of(both)
            both = self.known[done]
        return both

    def narrowed(self, axis: int, start: int, extent: int) -> Spectrum | None:
        """A part of it; None along a dimension that is not transformed."""
        line = self._along(axis)
        if line is None:
            return None
        return self._with(replace(line, first=(line.first + start) % line.length, results=extent))

    def rolled(self, axis: int, shift: int) -> Spectrum | None:
        """It repeats itself; None along other dimensions, and where it is not whole."""
        line = self._along(axis)
        if line is None or line.results != line.length:
            return None
        return self._with(replace(line, first=(line.first - shift) % line.length))

    def _along(self, axis: int) -> Lines | None:
        return next((line for line in self.lines if line.axis == axis), None)

    def _with(self, line: Lines) -> Spectrum:
        lines = tuple(line if own.axis == line.axis else own for own in self.lines)
        return replace(self, lines=lines)


@dataclass(frozen=True, slots=True)
class Padded:
    """Numbers among zeros.

    Attributes:
        shape: of all.
        dtype: of its parts.
        core: the numbers, a complex tensor; None: there are zeros alone.
        starts: where they are; those that the end has no place for are at the beginning.
    """

    shape: tuple[int, ...]
    dtype: Any
    core: Any = None
    starts: tuple[int, ...] = ()

    def made(self) -> Any:
        """``[..., 2]``, real and imaginary parts."""
        import torch

        if self.core is None:
            return torch.zeros((*self.shape, 2), dtype=self.dtype)
        both = both_of(self.core)
        for axis, (start, extent) in enumerate(zip(self.starts, self.shape, strict=True)):
            both = _among_zeros(both, axis, start, extent)
        return both

    def placed(self, axis: int) -> tuple[int, int]:
        """Where the numbers are along a dimension, and how many."""
        return self.starts[axis], self.core.shape[axis]

    def is_padded(self, axis: int) -> bool:
        """Whether there are zeros along a dimension."""
        return self.core is None or self.core.shape[axis] != self.shape[axis]

    def narrowed(self, axis: int, start: int, extent: int) -> Padded | None:
        """A part of it; None where the numbers are at both ends."""
        shape = (*self.shape[:axis], extent, *self.shape[axis + 1 :])
        if self.core is None:
            return Padded(shape, self.dtype)
        own, count = self.placed(axis)
        if own + count > self.shape[axis]:
            return None
        first, last = max(start, own), min(start + extent, own + count)
        if first >= last:
            return Padded(shape, self.dtype)
        core = self.core.narrow(axis, first - own, last - first)
        return Padded(shape, self.dtype, core, self._moved(axis, first - start))

    def rolled(self, axis: int, shift: int) -> Padded:
        """The numbers are elsewhere."""
        if self.core is None:
            return self
        start = (self.starts[axis] + shift) % self.shape[axis]
        return replace(self, starts=self._moved(axis, start))

    def along(self, axis: int) -> Padded:
        """The same, as numbers among zeros along one dimension; the others have numbers alone."""
        extents = [*self.core.shape]
        extents[axis] = self.shape[axis]
        starts = [start if a == axis else 0 for a, start in enumerate(self.starts)]
        return Padded(tuple(extents), self.dtype, self.core, tuple(starts))

    def _moved(self, axis: int, start: int) -> tuple[int, ...]:
        return (*self.starts[:axis], start, *self.starts[axis + 1 :])


def padded_of(pair: Any) -> Padded:
    """A complex tensor as numbers among zeros, of which there may be none."""
    if isinstance(pair.source, Padded):
        return pair.source
    return Padded(tuple(pair.shape), pair.dtype.to_real(), pair, (0,) * pair.dim())


def written(x: Any, src: Any, axis: int, start: int) -> Any:
    """A complex tensor with another one written into it; None where it has to be made for that.

    Args:
        x: the tensor.
        src: what is written.
        axis: along which dimension.
        start: where, along that one.
    """
    import torch

    if not isinstance(x.source, Padded):
        return None
    old, new = x.source, padded_of(src)
    if new.core is not None and old.core is None:
        return pair_of_source(replace(new, shape=old.shape, starts=_shifted(new, axis, start)))
    others = [other for other in range(x.dim()) if other != axis]
    if new.core is None or any(old.placed(a) != new.placed(a) for a in others):
        return None
    line, whole = old.along(axis), new.along(axis)
    stop = start + new.shape[axis]
    before = line.narrowed(axis, 0, start)
    after = line.narrowed(axis, stop, old.shape[axis] - stop)
    if before is None or after is None:
        return None
    pieces = [piece.made() for piece in (before, whole, after) if piece.shape[axis]]
    core = pair_of_both(torch.cat(pieces, axis))
    starts = tuple(0 if a == axis else own for a, own in enumerate(old.starts))
    return pair_of_source(replace(old, core=core, starts=starts))


def _shifted(padded: Padded, axis: int, start: int) -> tuple[int, ...]:
    return tuple(own + start * (a == axis) for a, own in enumerate(padded.starts))


def _among_zeros(both: Any, axis: int, start: int, extent: int) -> Any:
    """Numbers along one dimension at their place."""
    import torch

    read = both.shape[axis]
    if read == extent:
        return both.roll(start, axis) if start else both
    rest = max(start + read - extent, 0)
    edges = [0, 0] * (both.dim() - 1 - axis)
    if not rest:
        return torch.nn.functional.pad(both, [*edges, start, extent - start - read])
    shape = [*both.shape]
    shape[axis] = extent - read
    zeros = torch.zeros(shape, dtype=both.dtype)
    last = both.narrow(axis, read - rest, rest)
    return torch.cat([last, zeros, both.narrow(axis, 0, read - rest)], axis)
