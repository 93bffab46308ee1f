"""What the outputs of an imported module are called: like the parts of its result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from autosched.graph.errors import ModelImportError
from autosched.graph.ir import Network, Result
from sketch.errors import quoted

if TYPE_CHECKING:
    from autosched.graph.ir import Value

_NUMBERED: Final = "output_{}"


def with_output_names(network: Network, names: Sequence[str], where: str) -> Network:
    """The network with other names of its outputs.

    Args:
        network: to rename the outputs of.
        names: one for each output.
        where: for the error.

    Raises:
        ModelImportError: these cannot be their names.
    """
    _check(names, network, where)
    pairs = zip(names, network.graph.results, strict=True)
    results = tuple(Result(name, result.value) for name, result in pairs)
    return replace(network, graph=replace(network.graph, results=results))


def _check(names: object, network: Network, where: str) -> None:
    count = len(network.outputs)
    if isinstance(names, str) or not isinstance(names, Sequence) or len(names) != count:
        wrong = f"{quoted(names)} for {count} outputs"
    elif not all(isinstance(name, str) and name for name in names):
        wrong = f"{list(names)!r} are not all names"
    elif len({*names, *_names(network.inputs)}) < count + len(network.inputs):
        wrong = f"{list(names)!r} have a name twice, or that of an input"
    else:
        return
    raise ModelImportError(f"output_names: {wrong}", where, "give one name for each output")


def names_of_parts(program: Any, inputs: Sequence[Value]) -> list[str]:
    """Keys and fields of a module's result, joined by dots; positions in what has none.

    Empty where the result is a single tensor, or where torch does not say what it is made of.

    Args:
        program: a ``torch.export.ExportedProgram``.
        inputs: of the network: no output gets the name of one.
    """
    from torch.utils._pytree import tree_flatten_with_path, tree_unflatten

    spec = program.call_spec.out_spec
    if spec.is_leaf():
        return []
    # A tensor is there by its name; None and numbers are no outputs of networks.
    parts = program.graph_signature.user_outputs
    try:
        paths = tree_flatten_with_path(tree_unflatten(parts, spec))[0]
    except Exception:  # classes of users, which take no names for tensors
        return []
    texts = [_text(path) for path, part in paths if isinstance(part, str)]
    return list(_unique(texts, _names(inputs)))


def _text(path: Sequence[Any]) -> str:
    """``top.0``; what begins with a position: ``output_0.y``."""
    text = ".".join(str(_part(key)) for key in path)
    return _NUMBERED.format(text) if text[:1].isdigit() or not text else text


def _part(key: Any) -> Any:
    """What a key of torch's trees says: of a mapping, of a sequence, a field's; or a user's."""
    known = (getattr(key, name) for name in ("key", "idx", "name") if hasattr(key, name))
    return next(known, str(key))


def _names(values: Sequence[Value]) -> list[str]:
    return [value.name for value in values]


def _unique(names: Sequence[str], inputs: Sequence[str]) -> Iterator[str]:
    """An output that is called like an input is its result; keys 1 and "1" read alike."""
    seen: set[str] = set()
    for name in names:
        found = f"{name}_result" if name in inputs else name
        while found in seen:
            found += "_again"
        seen.add(found)
        yield found
