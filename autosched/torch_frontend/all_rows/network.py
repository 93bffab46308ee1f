"""A graph that may select rows by masks, as a network."""

from __future__ import annotations

import logging
from collections.abc import Collection, Sequence
from typing import Any, Final

from autosched.graph.ir import Network
from autosched.torch_frontend.all_rows.static_form import static_form
from autosched.torch_frontend.aten import NotTakenError, ProgramCall, network_of_graph

LOG: Final = logging.getLogger("autosched.torch")


def network_of_program(call: ProgramCall) -> Network:
    """The network of a program.

    Raises:
        NotTakenError: as ``network_of_graph``.
    """
    positions, names = list(call.outputs), list(call.outputs.values())
    return network_with_all_rows(call.graph, call.args, call.static, positions, names)


def network_with_all_rows(
    graph: Any,
    args: Sequence[Any],
    static: Collection[int],
    outputs: Sequence[int],
    names: Sequence[str] = (),
) -> Network:
    """The network of a graph, with all rows in place of selected ones where data select them.

    Args:
        graph: a ``torch.fx.GraphModule`` of ATen operators without side effects.
        args: tensors and numbers that it is called with; they fix shapes and dtypes.
        static: positions of the tensors that are constants.
        outputs: positions of the results that the network has.
        names: of these results; none: they are numbered by position.

    Raises:
        NotTakenError: as ``network_of_graph``.
    """
    try:
        return network_of_graph(graph, args, static, outputs, names)
    except NotTakenError as reason:
        try:
            return network_of_graph(static_form(graph, args), args, static, outputs, names)
        except NotTakenError as other:
            LOG.debug("lengths are not all known: %s", str(other).splitlines()[0])
            raise reason from other
