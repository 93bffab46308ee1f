"""Which graphs have a form in which all lengths are known."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from autosched.torch_frontend.all_rows import static_form
from autosched.torch_frontend.all_rows.rows import Selections
from autosched.torch_frontend.aten import NotTakenError, call_of_program
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
selections = lazily("tests.support.torch_selections")
pytestmark = pytest.mark.usefixtures("torchlib")


def _exported(function: Any, *args: Any) -> tuple[Any, Sequence[Any]]:
    with torch.no_grad():
        program = torch.export.export(selections.Selection(function), args)
        call = call_of_program(program.run_decompositions({}))
    return call.graph, call.args


def _given() -> tuple[Any, Any]:
    x = torch.randn(selections.ROWS, selections.WIDTH)
    return x, torch.ones(selections.ROWS, dtype=torch.bool)


def test_all_extents_are_numbers() -> None:
    graph = static_form(*_exported(lambda x, m: x[m].exp().sum(0), *_given()))
    fakes = [node.meta["val"] for node in graph.graph.nodes if "val" in node.meta]
    assert all(isinstance(extent, int) for fake in fakes for extent in fake.shape)
    x, mask = _given()
    mask[::3] = False
    (found,) = graph(x, mask)
    torch.testing.assert_close(found, x[mask].exp().sum(0))


def test_places_of_rows_are_replaced_before_they_are_repeated() -> None:
    def sent(x: Any, mask: Any) -> Any:
        places = torch.zeros(len(x), dtype=torch.int64)[mask].view(-1, 1).expand(-1, 5)
        return torch.zeros(3, 5).scatter_add(0, places, x[mask])

    graph = static_form(*_exported(sent, *_given()))
    shapes = [n.meta["val"].shape for n in graph.graph.nodes if "where" in str(n.target)]
    assert shapes == [(selections.ROWS, 1)]


@pytest.mark.parametrize(
    "name",
    ["a result", "cumulated", "first", "joined dimensions", "length", "length as elements",
     "lengths of two dimensions", "no mask", "order", "places", "sum of two masks", "two masks"],
)  # fmt: skip
def test_what_needs_more_is_refused(name: str) -> None:
    function, reason = selections.REFUSED[name]
    with pytest.raises(NotTakenError, match=reason):
        static_form(*_exported(function, *_given()))


def test_all_pairs_are_taken_up_to_a_size() -> None:
    def neighbours(x: Any, pairs: Any) -> Any:
        source, target = pairs.nonzero(as_tuple=True)
        return torch.zeros_like(x).index_add(0, target, x[source])

    for nodes, taken in ((40, True), (400, False)):
        given = torch.zeros(nodes, 40), torch.zeros(nodes, nodes, dtype=torch.bool)
        graph, args = _exported(neighbours, *given)
        if taken:
            static_form(graph, args)
        else:
            with pytest.raises(NotTakenError, match="all pairs in place of a few"):
                static_form(graph, args)


def test_graphs_of_known_lengths_are_refused() -> None:
    with pytest.raises(NotTakenError, match="all lengths are known"):
        static_form(*_exported(lambda x, m: x * m.view(-1, 1), *_given()))


def test_the_same_selection_has_one_object() -> None:
    known, mask = Selections(), torch.tensor([True, False])
    own = known.of_mask(mask)
    assert known.of_mask(mask) is own
    assert known.of_mask(mask.clone()) is not own
    both = known.joined([own, 3])
    assert both.kept.tolist() == [True, False, True, True, True]
    assert known.joined([own, 3]) is both
    assert known.joined([3, own]) is not both
    within = torch.tensor([False, True, True, False, True])
    assert known.within(both, within).kept.tolist() == [False, False, True, False, True]
    assert known.within(both, within) is known.within(both, within)
