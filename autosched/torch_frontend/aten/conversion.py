"""A graph of ATen operators -> network: what is known now is computed, the rest converted."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from operator import getitem
from typing import Any, Final

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError
from autosched.graph.ir import Network, Value
from autosched.torch_frontend.aten.arguments import arguments_by_name
from autosched.torch_frontend.aten.call import AtenCall, NotTakenError, Result
from autosched.torch_frontend.aten.decomposition import decomposed, has_parts
from autosched.torch_frontend.aten.table import CONVERTERS
from sketch.lang.dtypes import SUPPORTED

_OUTPUTS: Final = "output_{}"
_MODULES: Final = ("_operator", "math", "torch")  # of functions of numbers and of tuples
_SIZES: Final = ("aten.sym_size.int",)
# What converters and torch raise on arguments that nobody has thought of.
_CONVERTER_ERRORS: Final = (
    ArithmeticError,
    AttributeError,
    LookupError,
    RuntimeError,
    TypeError,
    ValueError,
)
MAX_KNOWN_BYTES: Final = 1 << 31
"""No tensor that is computed at import may be larger: checked before it is computed."""


def network_of_graph(
    graph: Any,
    args: Sequence[Any],
    static: Collection[int],
    outputs: Sequence[int],
    names: Sequence[str] = (),
) -> Network:
    """The network of a graph for certain arguments.

    Args:
        graph: a ``torch.fx.GraphModule`` of ATen operators as AOT autograd traces them.
        args: tensors and numbers that it is called with; they fix shapes and dtypes.
        static: positions of the tensors that are constants.
        outputs: positions of the results that the network has.
        names: of these results; none: they are numbered by position.

    Raises:
        NotTakenError: an operator without a converter, or one that is used in another way than
            its converter knows.
    """
    import torch

    places = [node.name for node in graph.graph.nodes if node.op == "placeholder"]
    public = names or [_OUTPUTS.format(index) for index in outputs]
    with torch.no_grad():
        apart: set[Any] = set()
        taken = graph
        while True:
            try:
                conversion = _Conversion(taken, places, args, static)
                return conversion.run(dict(zip(public, outputs, strict=True)))
            except NotTakenError as reason:
                if reason.target in apart or not has_parts(reason.target):
                    raise
                apart.add(reason.target)
            taken = decomposed(graph, args, apart)


class _Conversion:
    """A network while it is built.

    A value of the graph is a ``Value`` of the network, or what it is where that is known now: a
    tensor of torch, a number, a tuple.
    """

    def __init__(
        self, graph: Any, names: Sequence[str], args: Sequence[Any], static: Collection[int]
    ) -> None:
        self._graph = graph
        self._builder = GraphBuilder("graph")
        self._values: dict[Any, Any] = {}
        self._constants: dict[int, tuple[str, Any]] = {}
        self._views: dict[str, str] = {}
        places = (node for node in graph.graph.nodes if node.op == "placeholder")
        for index, (node, name, value) in enumerate(zip(places, names, args, strict=True)):
            known = index in static or not hasattr(value, "dtype")
            self._values[node] = value if known else self._input(name, value)

    def run(self, outputs: Mapping[str, int]) -> Network:
        """Convert all nodes that somebody reads; ``outputs``: positions of results by name."""
        *nodes, last = self._graph.graph.nodes
        for node in nodes:
            if node.op != "placeholder":
                try:
                    self._values[node] = self._converted(node)
                except (NotTakenError, GraphError, *_CONVERTER_ERRORS) as reason:
                    text = f"{node.name} ({node.target}): {reason}"
                    raise NotTakenError(text, node.target) from reason
        results = last.args[0]
        values = {name: self._result(results[index]) for name, index in outputs.items()}
        return Network(self._builder.name, self._builder.finish(values))

    def _input(self, name: str, tensor: Any) -> Value:
        dtype = _dtype_name(tensor)
        value = Value(name, tuple(tensor.shape), dtype)
        if dtype not in SUPPORTED or not value.type.native:
            raise NotTakenError(f"an input of type {value.type}")
        self._builder.input(value)
        return value

    def _converted(self, node: Any) -> Any:
        if node.op == "get_attr":
            return _attribute(self._graph, node.target)
        if node.op != "call_function":
            raise NotTakenError(node.op)
        given = _replaced((node.args, dict(node.kwargs)), self._values)
        schema = getattr(node.target, "_schema", None)
        if schema is not None and schema.is_mutable:
            raise NotTakenError("it changes its arguments")
        if not node.users:
            return None
        if schema is None:
            return _plain_call(node.target, *given)
        if not _has_value(given):
            return _computed_now(node, *given)
        if str(node.target) in _SIZES:
            tensor, dimension = given[0]
            return tensor.shape[dimension]
        return self._call(node, schema, *given)

    def _call(self, node: Any, schema: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        convert = CONVERTERS.get(str(node.target))
        expected = node.meta.get("val")
        first = expected[0] if isinstance(expected, list | tuple) else expected
        if convert is None or first is None:
            raise NotTakenError("no converter")
        named = arguments_by_name(schema, args, kwargs)
        fakes = arguments_by_name(schema, *_replaced((node.args, dict(node.kwargs)), _Fakes()))
        dtype = _dtype_name(first)
        site = replace(self._site(node, named, fakes, dtype), read=_parts_read(node))
        return self._checked(convert(site), expected)

    def _site(self, node: Any, given: Any, fakes: Any, dtype: str) -> AtenCall:
        parts = self._builder, self._constants, self._views
        return AtenCall(node.name, given, fakes, dtype, *parts)

    def _checked(self, result: Result, expected: Any) -> Any:
        """The values of a result; their types are those that torch promises."""
        if isinstance(result, str):
            return self._as_promised(result, expected)
        parts = zip(result, expected, strict=True)
        return tuple(None if n is None else self._as_promised(n, fake) for n, fake in parts)

    def _as_promised(self, name: str, fake: Any) -> Value:
        kind = self._builder.types[name]
        static = all(isinstance(extent, int) for extent in fake.shape)
        if kind.dtype != _dtype_name(fake) or (static and kind.shape != tuple(fake.shape)):
            raise NotTakenError(f"{kind} where torch has {fake.dtype} {tuple(fake.shape)}")
        return Value(name, kind.shape, kind.dtype)

    def _result(self, node: Any) -> str:
        value = self._values[node]
        if isinstance(value, Value):
            return value.name
        if not hasattr(value, "dtype"):
            raise NotTakenError(f"the result {value!r}")
        return self._site(node, {}, {}, _dtype_name(value)).named(value)


def _parts_read(node: Any) -> frozenset[int]:
    """Which of several results of a node others read."""
    return frozenset(user.args[1] for user in node.users if user.target is getitem and user.users)


class _Fakes(dict[Any, Any]):
    """Tensors without elements by the node that computes them."""

    def __missing__(self, node: Any) -> Any:
        return node.meta.get("val")


def _replaced(value: Any, values: Mapping[Any, Any]) -> Any:
    """Arguments with what nodes stand for in place of them."""
    if hasattr(value, "op") and hasattr(value, "users"):
        return values[value]
    if isinstance(value, list | tuple):
        return type(value)(_replaced(part, values) for part in value)
    if isinstance(value, dict):
        return {name: _replaced(part, values) for name, part in value.items()}
    return value


def _has_value(given: Any) -> bool:
    """Whether the network computes a part of some arguments."""
    if isinstance(given, list | tuple):
        return any(map(_has_value, given))
    if isinstance(given, dict):
        return any(map(_has_value, given.values()))
    return isinstance(given, Value)


def _plain_call(target: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """A function of numbers, or what takes a tuple apart."""
    of_parts = target is getitem and isinstance(args[0], list | tuple)
    of_numbers = getattr(target, "__module__", None) in _MODULES and not _has_value(args)
    if not of_parts and not of_numbers:
        raise NotTakenError("no operator of torch")
    result = target(*args, **kwargs)
    if result is None:
        raise NotTakenError("a result that nobody has computed")
    return result


def _computed_now(node: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The result of an operator whose arguments are all known."""
    import torch

    if torch.Tag.nondeterministic_seeded in node.target.tags:
        raise NotTakenError("it draws random numbers")
    fake = node.meta.get("val")
    if hasattr(fake, "dtype") and all(isinstance(extent, int) for extent in fake.shape):
        size = fake.numel() * fake.element_size()
        if size > MAX_KNOWN_BYTES:
            raise NotTakenError(f"a constant of {size:,} bytes")
    result = node.target(*args, **kwargs)
    # Of memory that nobody has written, everything is said by what is written to it.
    return torch.zeros_like(result) if "empty" in node.target._schema.name else result


def _attribute(graph: Any, path: str) -> Any:
    for name in path.split("."):
        graph = getattr(graph, name)
    return graph


def _dtype_name(tensor: Any) -> str:
    return str(tensor.dtype).removeprefix("torch.")
