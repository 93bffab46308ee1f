"""A graph that selects rows by masks, traced anew with all rows in place of the selected ones.

    y.scatter_add(0, to[mask], x[from[mask]])  ->  y.scatter_add(0, where(mask, to, rows), x[from])

One pass follows the selected rows from call to call.  Operators that compute each row of its own
compute those that are left out, too; whatever comes of that is read by nobody: where rows end, in a
scatter or a reduction, it is replaced.  What asks for more, such as a result of the network whose
length is not known, is not taken.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from operator import getitem
from typing import Any, Final

from autosched.torch_frontend.all_rows.call import RowCall, Rule
from autosched.torch_frontend.all_rows.each_row import EACH_ROW, of_each_element
from autosched.torch_frontend.all_rows.ends import ENDS
from autosched.torch_frontend.all_rows.rows import (
    Length,
    SelectedRows,
    Selections,
    formula_of,
    is_open,
    parts_of_type,
)
from autosched.torch_frontend.all_rows.selecting import SELECTING
from autosched.torch_frontend.aten.arguments import arguments_by_name
from autosched.torch_frontend.aten.call import NotTakenError
from autosched.torch_frontend.retracing import retraced

_RULES: Final[Mapping[str, Rule]] = {
    f"aten.{name}": rule for rules in (SELECTING, EACH_ROW, ENDS) for name, rule in rules.items()
}
# What torch has found out of lengths while it exported the module holds for every mask.
_CLAIMS: Final = (
    "aten._assert_scalar.default", "aten._assert_tensor_metadata.default",
    "aten.sym_constrain_range.default", "aten.sym_constrain_range_for_size.default",
)  # fmt: skip


def static_form(graph: Any, args: Sequence[Any]) -> Any:
    """A graph in which all lengths are known, and that computes the same.

    What is left out of a scatter is sent out of range, which networks leave out, and torch refuses.

    Args:
        graph: a ``torch.fx.GraphModule`` of ATen operators without side effects.
        args: that it is called with; the new graph is for these shapes.

    Raises:
        NotTakenError: data decide no lengths, or not by masks, or rows that are left out would
            count somewhere.
    """
    values = [part for node in graph.graph.nodes for part in _parts(node.meta.get("val"))]
    if not any(map(_is_of_unknown_length, values)):
        raise NotTakenError("all lengths are known")
    return retraced(graph, args, lambda *given: _interpreter_type()(graph).run(*given))


def _parts(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else (value,)


def _is_of_unknown_length(fake: Any) -> bool:
    return any(map(is_open, getattr(fake, "shape", ())))


@cache
def _interpreter_type() -> Any:
    """Calls a graph's operators by the rules for selected rows."""
    import torch

    class Interpreter(torch.fx.Interpreter):
        def __init__(self, graph: Any) -> None:
            super().__init__(graph)
            self._selections = Selections()

        def run_node(self, n: Any) -> Any:
            if n.op not in ("call_function", "output"):
                return super().run_node(n)
            args, kwargs = self.fetch_args_kwargs_from_env(n)
            if n.op == "call_function":
                return _called(n, args, kwargs, self._selections)
            if _concerns(args):
                raise NotTakenError("a result of selected rows")
            return self.output(n.target, args, kwargs)

    return Interpreter


def _called(
    node: Any, args: Sequence[Any], kwargs: Mapping[str, Any], selections: Selections
) -> Any:
    """The result of a node.

    Args:
        node: of the graph; its operator is called on all rows.
        args: its arguments.
        kwargs: those that are given by name.
        selections: those met so far.

    Raises:
        NotTakenError: there is no rule, or it does not hold here.
    """
    expected = node.meta.get("val")
    if str(node.target) in _CLAIMS or not node.users:
        return None
    if is_open(expected):
        return Length(formula_of(expected))
    if node.target is getitem:
        return args[0][args[1]]
    unknown = any(map(_is_of_unknown_length, _parts(expected)))
    if not unknown and not _concerns((args, kwargs)):
        return node.target(*args, **kwargs)
    rule = _rule(node.target)
    given = arguments_by_name(node.target._schema, args, kwargs)
    result = rule(RowCall(node.target, given, expected, selections))
    _check_types(node.target, result, expected)
    return result


def _rule(target: Any) -> Rule:
    import torch

    rule = _RULES.get(str(target))
    if rule is None and torch.Tag.pointwise in getattr(target, "tags", ()):
        return of_each_element
    if rule is None:
        raise NotTakenError(f"{target} of selected rows", target)
    return rule


def _check_types(target: Any, result: Any, expected: Any) -> None:
    """Raise NotTakenError if what should be of known length is not, or another tensor."""
    for own, fake in zip(_parts(result), _parts(expected), strict=True):
        if isinstance(own, SelectedRows):
            continue  # checked when it was made
        if own.dtype != fake.dtype or own.shape != fake.shape:
            theirs = f"{fake.dtype} {tuple(fake.shape)}"
            raise NotTakenError(f"{target}: {tuple(own.shape)} where torch has {theirs}", target)


def _concerns(given: Any) -> bool:
    """Whether there are selected rows among arguments, or their number."""
    return any(True for kind in (SelectedRows, Length) for _ in parts_of_type(given, kind))
