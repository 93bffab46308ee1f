"""Tensors of a length that data decide, kept at the length of the mask that selects their rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from autosched.torch_frontend.aten.call import NotTakenError


@dataclass(frozen=True, slots=True, eq=False)
class Selection:
    """Which of all rows are selected.

    Tensors of selected rows go together, row by row, if they have one and the same selection.

    Attributes:
        kept: truth values ``[rows]``.
        of_elements: whether the mask has several dimensions, such as one of pairs.
    """

    kept: Any
    of_elements: bool = False

    @property
    def extent(self) -> int:
        """The number of all rows."""
        return int(self.kept.shape[0])


@dataclass(frozen=True, slots=True, eq=False)
class SelectedRows:
    """A tensor of selected rows; those that are left out have any elements, also NaN.

    Attributes:
        data: with all rows.
        axis: the dimension of the rows, non-negative.
        selection: which rows are selected.
        repeated: what the data repeat along other dimensions; None if they repeat nothing.
    """

    data: Any
    axis: int
    selection: Selection
    repeated: SelectedRows | None = None

    @property
    def from_end(self) -> int:
        """The dimension of the rows as broadcasting counts it, negative."""
        return int(self.axis - self.data.dim())

    def or_else(self, number: Any) -> Any:
        """The data, and a number in the rows that are left out."""
        import torch

        if self.repeated is not None:
            return self.repeated.or_else(number).expand(self.data.shape)
        ones = (1,) * (self.data.dim() - self.axis - 1)
        kept = self.selection.kept.reshape(-1, *ones)
        return torch.where(kept, self.data, torch.full((), number, dtype=self.data.dtype))


@dataclass(frozen=True, slots=True)
class Length:
    """A number of selected rows, or what is computed of such numbers: ``u0 + 50``.

    Attributes:
        formula: of torch's unknown numbers.
    """

    formula: Any


@dataclass(slots=True)
class Selections:
    """The selections that a graph has met so far; for one mask there is one."""

    _known: dict[tuple[tuple[str, int], ...], tuple[Selection, Sequence[Any]]] = field(
        default_factory=dict
    )
    _of_length: dict[Any, Selection] = field(default_factory=dict)

    def of_mask(self, mask: Any) -> Selection:
        """Of what a tensor of truth values selects, all of its dimensions in one."""
        return self._once((mask,), lambda: Selection(mask.reshape(-1), mask.dim() > 1))

    def within(self, selection: Selection, mask: Any) -> Selection:
        """Of what a mask of selected rows selects among them."""

        def made() -> Selection:
            return Selection(selection.kept & mask, selection.of_elements)

        return self._once((selection, mask), made)

    def joined(self, parts: Sequence[Selection | int]) -> Selection:
        """Of selected rows one after the other; numbers count rows that are all there."""
        import torch

        def made() -> Selection:
            masks = [
                torch.ones(part, dtype=torch.bool) if isinstance(part, int) else part.kept
                for part in parts
            ]
            pairs = [part for part in parts if isinstance(part, Selection) and part.of_elements]
            return Selection(torch.cat(masks), bool(pairs))

        return self._once(tuple(parts), made)

    def record(self, length: Any, selection: Selection) -> None:
        """Remember that the rows of a selection are ``length`` in number."""
        self._of_length[length] = selection

    def of_length(self, length: Length) -> Selection:
        """A selection of so many rows.

        Raises:
            NotTakenError: there is none.
        """
        if length.formula not in self._of_length:
            raise NotTakenError(f"{length.formula} rows that nothing selects")
        return self._of_length[length.formula]

    def _once(self, parts: Sequence[Any], made: Callable[[], Selection]) -> Selection:
        # As long as the parts live, nobody else has their ids.
        key = tuple(("rows", part) if isinstance(part, int) else ("", id(part)) for part in parts)
        if key not in self._known:
            self._known[key] = made(), parts
        return self._known[key][0]


def is_open(extent: Any) -> bool:
    """Whether torch does not know an extent, or a number."""
    return hasattr(extent, "node") and not isinstance(extent, int)


def formula_of(number: Any) -> Any:
    """What torch knows of an unknown number."""
    return number.node.expr


def parts_of_type(given: Any, kind: type) -> Iterator[Any]:
    """What among arguments is of a type."""
    if isinstance(given, kind):
        yield given
    elif isinstance(given, list | tuple):
        for part in given:
            yield from parts_of_type(part, kind)
    elif isinstance(given, dict):
        yield from parts_of_type(tuple(given.values()), kind)
