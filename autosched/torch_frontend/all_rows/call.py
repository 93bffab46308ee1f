"""What a rule for selected rows sees: one call of an operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from autosched.torch_frontend.all_rows.rows import (
    Length,
    SelectedRows,
    Selection,
    Selections,
    formula_of,
    is_open,
    parts_of_type,
)
from autosched.torch_frontend.aten.call import NotTakenError

# Edges are few among pairs of nodes: more elements take longer than the host with those selected.
_MOST_ELEMENTS: Final = 1 << 22


@dataclass(frozen=True, slots=True)
class RowCall:
    """One call of an ATen operator that reads, makes or counts selected rows.

    Attributes:
        target: the operator.
        given: arguments by the names of its schema, defaults filled in.
        expected: what torch says of the result: tensors without elements, of unknown lengths.
        selections: those met so far.
    """

    target: Any
    given: Mapping[str, Any]
    expected: Any
    selections: Selections

    def __getitem__(self, role: str) -> Any:
        return self.given[role]

    @property
    def rows(self) -> list[SelectedRows]:
        """All tensors of selected rows among the arguments."""
        return list(parts_of_type(dict(self.given), SelectedRows))

    @property
    def selection(self) -> Selection:
        """The one selection of all of them.

        Raises:
            NotTakenError: there are several.
        """
        self.check_selection()
        return self.rows[0].selection

    def check_selection(self) -> None:
        """Raise NotTakenError unless there are some, and all of them have one selection."""
        self.require(bool(self.rows), "a number of selected rows")
        first, *others = [rows.selection for rows in self.rows]
        self.require(all(selection is first for selection in others), "rows of several selections")

    def data(self, role: str) -> SelectedRows:
        """An argument that must be a tensor of selected rows."""
        value = self.given[role]
        self.require(isinstance(value, SelectedRows), f"{role} without selected rows")
        assert isinstance(value, SelectedRows)
        return value

    def whole(self, role: str) -> Any:
        """An argument that must be a tensor of known length."""
        self.require(not isinstance(self.given[role], SelectedRows), f"{role} of selected rows")
        return self.given[role]

    def dims(self, role: str, of: SelectedRows) -> tuple[int, ...]:
        """Dimensions that an argument names, non-negative; all of them where it names none."""
        dims, rank = self.given.get(role), of.data.dim()
        if dims is None or dims == []:
            return tuple(range(rank))
        return tuple(d % rank for d in ([dims] if isinstance(dims, int) else dims))

    def run(self, /, **others: Any) -> Any:
        """The operator on all rows; ``others``: arguments in place of those given."""
        values = {name: self._all_rows(v) for name, v in {**self.given, **others}.items()}
        arguments = self.target._schema.arguments
        args = [values[a.name] for a in arguments if not a.kwarg_only]
        kwargs = {a.name: values[a.name] for a in arguments if a.kwarg_only}
        return self.target(*args, **kwargs)

    def of_each_row(self, selection: Selection, /, **others: Any) -> Any:
        """As ``run``, where rows of the result are computed of the same rows of arguments."""
        return self.finished(self.run(**others), selection)

    def finished(self, result: Any, selection: Selection) -> Any:
        """What all rows came to, as selected rows where torch does not know the length."""
        if isinstance(result, list | tuple):
            pairs = zip(result, self.expected, strict=True)
            return tuple(self._finished(own, theirs, selection) for own, theirs in pairs)
        return self._finished(result, self.expected, selection)

    def require(self, holds: bool, what: str) -> None:
        """Raise NotTakenError unless ``holds``."""
        if not holds:
            raise NotTakenError(f"{self.target}: {what}", self.target)

    def _all_rows(self, value: Any) -> Any:
        """An argument with all rows in place of selected ones."""
        if isinstance(value, SelectedRows):
            return value.data
        self.require(not isinstance(value, Length), "a number of selected rows")
        return [self._part(part) for part in value] if isinstance(value, list | tuple) else value

    def _part(self, value: Any) -> Any:
        """A tensor, or an extent of a shape."""
        if isinstance(value, Length):
            return self.selections.of_length(value).extent
        return value.data if isinstance(value, SelectedRows) else value

    def _finished(self, result: Any, expected: Any, selection: Selection) -> SelectedRows:
        unknown = [axis for axis, extent in enumerate(expected.shape) if is_open(extent)]
        self.require(len(unknown) == 1, f"a result of shape {tuple(expected.shape)}")
        (axis,) = unknown
        wanted = [selection.extent if is_open(extent) else extent for extent in expected.shape]
        same = list(result.shape) == wanted and result.dtype == expected.dtype
        self.require(same, f"{tuple(result.shape)} where torch has {tuple(expected.shape)}")
        few = not selection.of_elements or result.numel() <= _MOST_ELEMENTS
        self.require(few, "all pairs in place of a few")
        self.selections.record(formula_of(expected.shape[axis]), selection)
        return SelectedRows(result, axis, selection)


Rule = Callable[[RowCall], Any]
