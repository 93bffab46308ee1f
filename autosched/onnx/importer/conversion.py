"""ONNX nodes -> graph: folded, imported, expanded, or left to the host, in this order."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import onnx
from numpy.typing import NDArray
from onnx import helper

from autosched.graph.builder import GraphBuilder
from autosched.graph.errors import GraphError, ModelImportError
from autosched.graph.ir import Network, Value
from autosched.graph.ops.base import Shape, TensorType, check_size
from autosched.graph.ops.host import HostOp
from autosched.host.domains import CONTRIB
from autosched.host.node_names import read_names, walk
from autosched.onnx.importer.branches import (
    SIDES,
    branch_of,
    equal_results,
    free_prefix,
    import_choice,
    is_choice,
    taken_side,
)
from autosched.onnx.importer.deciding_inputs import advice_on_values, deciding_inputs
from autosched.onnx.importer.empty_past import without_empty_past
from autosched.onnx.importer.folding import fold_node
from autosched.onnx.importer.functions import expanded
from autosched.onnx.importer.host import (
    KnownResults,
    host_function,
    is_impossible,
    static_outputs,
)
from autosched.onnx.importer.load import initial_arrays
from autosched.onnx.importer.open_shapes import is_sized_by_data
from autosched.onnx.importer.piece import Setting, type_of
from autosched.onnx.importer.randomness import random_operator
from autosched.onnx.importer.signatures import check_signature
from autosched.onnx.importer.site import (
    ImpossibleError,
    Site,
    UnsupportedError,
    attributes_of,
    checked_constant,
    qualified,
)
from autosched.onnx.importer.table import IMPORTERS
from autosched.onnx.importer.unsupported import Refusals, Unsupported, joined

# What an importer raises on attributes and constants that the standard does not allow.
_CONVERTER_ERRORS = (
    ArithmeticError,
    AttributeError,
    LookupError,
    MemoryError,
    TypeError,
    ValueError,
)


class Conversion:
    """The network while it is built, and the nodes that cannot be part of it."""

    def __init__(
        self,
        name: str,
        model: onnx.ModelProto,
        inputs: Sequence[Value],
        promised: Mapping[str, TensorType],
    ) -> None:
        """``model``: with inferred types; ``promised``: types that it states for its outputs."""
        self._graph = model.graph
        infos = (*model.graph.value_info, *model.graph.output)
        types = {info.name: type_of(info) for info in infos}
        inferred = {name: kind for name, kind in types.items() if kind is not None}
        self._setting = Setting(tuple(model.opset_import), model.ir_version, inferred, promised)
        nodes = list(walk(model.graph.node))
        self._names = frozenset(n for node in nodes for n in (*node.input, *node.output, node.name))
        self._builder = GraphBuilder(name, self._names)
        self._arrays: dict[str, NDArray[Any]] = initial_arrays(model)
        self._labels: set[str] = set()
        self._refused = Refusals()
        self._missing: set[str] = set()  # outputs of unsupported nodes, and what depends on them
        # values that are no tensors of static shape, and the nodes that compute each of them:
        # they exist only within one host operator
        self._internal: dict[str, tuple[onnx.NodeProto, ...]] = {}
        self.assumed: set[str] = set()  # values whose types rest on what a few random inputs gave
        self._read = {name for node in nodes for name in read_names(node)}
        self._read.update(info.name for info in model.graph.output)
        for value in inputs:
            self._builder.input(value)

    def run(self) -> Network:
        """Convert all nodes.

        Raises:
            UnsupportedModelError: nodes are not supported; all of them are listed.
        """
        for node in self._graph.node:
            self._convert(node)
        for info in self._graph.output:
            self._finish_output(info.name)
        if self._refused.nodes:
            raise self._refused.error(self._builder.name, self.values_advice)
        outputs = {info.name: info.name for info in self._graph.output}
        return Network(self._builder.name, self._builder.finish(outputs))

    @property
    def values_advice(self) -> str:
        """To give inputs values that decide an ``If`` which cannot be imported; empty without."""
        lost = {refused.label for refused in self._refused.nodes if refused.operator == "If"}
        choices = [n for n in self._graph.node if not lost.isdisjoint((n.name, *n.output))]
        return advice_on_values(deciding_inputs(self._graph, choices))

    def _convert(self, node: onnx.NodeProto) -> None:
        label = self._label(node)
        if any(name in self._missing for name in read_names(node)):
            if not self._looks_supported(node):
                self._reject(node, label, "")
            self._missing.update(node.output)
            return
        try:
            self._place(node, label, label, on_host=True)
        except UnsupportedError as reason:
            self._reject(node, label, str(reason))

    def _place(self, node: onnx.NodeProto, label: str, layer: str, on_host: bool) -> None:
        """Make ``node``, a part of ``layer``, a part of the graph in the best way there is.

        Raises:
            UnsupportedError: there is none (without the host unless ``on_host``).
        """
        check_signature(node, self._dtypes(node), self._version(node.domain))
        side = taken_side(node, self._arrays)
        drawn = None if side else random_operator([node], self._arrays)
        if drawn is not None:
            raise UnsupportedError(f"{drawn} draws new random numbers in each run")
        self._assume(node)
        folded = fold_node(node, self._arrays, self._firm_types(node), self._setting)
        if folded is not None:
            self._arrays.update(folded)
            if self._is_of_integers(node):
                self._keep_integers(node, label, layer)
            return
        if side is not None:
            branch = branch_of(node, side, free_prefix(label, self._names))
            self._arrays.update(branch.constants)
            self._place_all(branch.emitting(node.output), layer, on_host)
            return
        self._place_computed(node, label, layer, on_host)

    def _assume(self, node: onnx.NodeProto) -> None:
        """What follows from an assumed type is assumed itself, unless onnx infers it anyway."""
        if any(name in self.assumed for name in read_names(node)):
            self.assumed.update(name for name in node.output if name not in self._setting.inferred)

    def _firm_types(self, node: onnx.NodeProto) -> dict[str, TensorType]:
        """Types of the node's inputs that hold for all data.

        A shape that is merely assumed must not become a constant: nothing would read the value any
        more, whose shape is checked when it is computed.
        """
        types = self._builder.types
        return {n: types[n] for n in node.input if n in types and n not in self.assumed}

    def _is_of_integers(self, node: onnx.NodeProto) -> bool:
        """Whether a constant is dequantised, or such a one transposed."""
        if node.op_type != "Transpose":
            return bool(node.op_type == "DequantizeLinear")
        name = node.input[0]
        return name in self._builder.types and name not in self._builder.constants

    def _keep_integers(self, node: onnx.NodeProto, label: str, layer: str) -> None:
        """Weights and what they are made of: layers of integers want the integers."""
        mark = self._builder.mark()
        try:
            self._import(node, label, layer)
        except (UnsupportedError, GraphError, ModelImportError):
            self._builder.roll_back(mark)  # the constant does

    def _place_computed(self, node: onnx.NodeProto, label: str, layer: str, on_host: bool) -> None:
        attempts: list[Callable[[], None]] = [
            lambda: self._import(node, label, layer),
            lambda: self._place_all(self._expand(node, label), layer, on_host=False),
            lambda: self._place_both(node, label, layer),
        ]
        if on_host:
            attempts.append(lambda: self._place_on_host(node, label, layer))
            attempts.append(lambda: self._place_all(self._expand(node, label), layer, True))
        reasons: list[str] = []
        for attempt in attempts:
            mark = self._builder.mark()
            try:
                attempt()
                self._note(node, label, reasons)
                return
            except UnsupportedError as reason:
                reasons.append(str(reason))
            except GraphError as error:
                reasons.append(error.what)
            except ModelImportError as error:
                if on_host or not self._is_impossible(node):
                    raise
                raise ImpossibleError(error.what) from error
            self._builder.roll_back(mark)
        if not on_host and self._is_impossible(node):
            raise ImpossibleError(joined(reasons))
        raise UnsupportedError(joined(reasons))

    def _note(self, node: onnx.NodeProto, label: str, reasons: Sequence[str]) -> None:
        """Remember why no kernel computes what now exists within host operators only."""
        internal = [name for name in node.output if name in self._internal]
        if not internal or is_sized_by_data(node, self._arrays):
            return
        read = read_names(node)
        own = Unsupported(qualified(node), label, joined(reasons))
        follows = any(name in self._internal for name in read)
        self._refused.note(self._refused.cause(read) if follows else own, internal)

    def _is_impossible(self, node: onnx.NodeProto) -> bool:
        return is_impossible(node, self._arrays, self._builder.types, self._setting)

    def _place_all(self, nodes: Sequence[onnx.NodeProto], layer: str, on_host: bool) -> None:
        self._read.update(name for node in nodes for name in read_names(node))
        for node in nodes:
            self._place(node, self._label(node), layer, on_host)

    def _place_both(self, node: onnx.NodeProto, label: str, layer: str) -> None:
        """Make both branches of an ``If`` parts of the graph, without the host, and choose.

        The host would compute what is not asked for, and fail where that cannot be computed.
        """
        if not is_choice(node):
            raise UnsupportedError("")
        results = [self._place_branch(node, side, label, layer) for side in SIDES]
        same = equal_results(results, node.output, self._arrays)
        wanted = [i for i, name in enumerate(node.output) if name in self._read - same.keys()]
        import_choice(self._site(node, label, layer), results, wanted)
        self._arrays.update(same)
        for index in wanted:
            self._check_imported(node.output[index])

    def _place_branch(
        self, node: onnx.NodeProto, side: str, label: str, layer: str
    ) -> tuple[str, ...] | None:
        """Make a branch a part of the graph; returns its results, None if it cannot be computed."""
        mark = self._builder.mark()
        branch = branch_of(node, side, free_prefix(f"{label}/{side}", self._names))
        self._arrays.update(branch.constants)
        self._read.update((*branch.results, *(n for m in branch.nodes for n in read_names(m))))
        for member in branch.nodes:
            try:
                self._place(member, self._label(member), layer, on_host=False)
            except ImpossibleError:
                self._builder.roll_back(mark)
                return None
            except (UnsupportedError, ModelImportError) as error:
                what = error.what if isinstance(error, ModelImportError) else str(error)
                where = f"{qualified(member)} of its {side}"
                raise UnsupportedError(f"{where}: {what}" if what else where) from error
        return branch.results

    def _expand(self, node: onnx.NodeProto, label: str) -> list[onnx.NodeProto]:
        return expanded(node, label, self._arrays, self._builder.types, self._setting)

    def _import(self, node: onnx.NodeProto, label: str, layer: str) -> None:
        """Hand the node to the importer of its operator."""
        if qualified(node) not in IMPORTERS:
            raise UnsupportedError("")
        node = without_empty_past(node, qualified(node), self._shape_of)
        types = self._builder.types
        for name in node.input:
            if name in self._internal:
                raise UnsupportedError(f"the shape of its input {name!r} depends on data")
            if name in types and not types[name].native:
                raise UnsupportedError(f"its input {name!r} has type {types[name]}")
        self._check_sizes(node)
        try:
            IMPORTERS[qualified(node)](self._site(node, label, layer))
        except _CONVERTER_ERRORS as error:
            raise ModelImportError(
                f"the node cannot be read: {type(error).__name__}: {error}",
                f"node {label} ({node.op_type})",
                "check its attributes and constants",
            ) from error
        for name in node.output:
            if name in self._read:
                self._check_imported(name)

    def _site(self, node: onnx.NodeProto, label: str, layer: str) -> Site:
        version, attributes = self._version(""), attributes_of(node)
        return Site(node, label, version, attributes, self._arrays, self._builder, layer)

    def _shape_of(self, name: str) -> Shape | None:
        """The extents of a value, where they are known and hold for all data."""
        if name in self._arrays:
            return self._arrays[name].shape
        kind = None if name in self.assumed else self._builder.types.get(name)
        return None if kind is None else kind.shape

    def _check_sizes(self, node: onnx.NodeProto) -> None:
        """Importers may allocate what they know the size of; too large a result ends here."""
        for name in node.output:
            if name in self._setting.inferred:
                check_size(name, self._setting.inferred[name])

    def _check_imported(self, name: str) -> None:
        kind = self._builder.types.get(name)
        if kind is None:
            raise UnsupportedError(f"its output {name!r} is used")
        if not kind.native:
            raise UnsupportedError(f"its output {name!r} has type {kind}")
        expected = self._setting.inferred.get(name, kind)
        if kind != expected:
            raise UnsupportedError(f"its output {name!r} would be {kind}, onnx infers {expected}")

    def _place_on_host(self, node: onnx.NodeProto, label: str, layer: str) -> None:
        """Make the node a host operator, with the nodes behind inputs that cannot leave one.

        Not one of onnxruntime's own that is imported otherwise: the reason why not is the answer.
        """
        if node.domain == CONTRIB and qualified(node) in IMPORTERS:
            raise UnsupportedError("")
        wanted = [name for name in node.output if name in self._read]
        inputs = read_names(node)
        behind = [m for name in inputs for m in self._internal.get(name, ())]
        nodes = [*{id(member): member for member in behind}.values(), node]
        surroundings = self._arrays, self._builder.types, self._setting
        known = static_outputs(nodes, wanted, *surroundings)
        internal = {name: tuple(nodes) for name in wanted if name not in known.types}
        self._internal.update(internal)
        self.assumed.update(known.probed)
        if not known.types:
            return
        function, sources = host_function(nodes, known, *surroundings)
        for index, name in enumerate(known.types):
            title = label if index == 0 else self._builder.unique(f"{label}.{index}")
            self._builder.add(HostOp(function, index), sources, name, title, (layer,))

    def _finish_output(self, name: str) -> None:
        """Let the output ``name`` be a value of the graph, or list why it cannot be."""
        if name in self._internal:
            operator = qualified(self._internal[name][-1])
            reason = "its shape depends on data, or it is no tensor"
            cause = self._refused.cause([name])
            self._refused.add(cause or Unsupported(operator, name, reason))
        elif name not in self._builder.types and name not in self._missing:
            array = self._arrays[name]
            if TensorType(array.shape, str(array.dtype)).native:
                self._builder.constant(name, checked_constant(name, array))
            else:
                self._add_host_constant(name, array)

    def _add_host_constant(self, name: str, array: NDArray[Any]) -> None:
        """A constant that kernels do not know: a host operator without inputs."""
        kind = TensorType(array.shape, str(array.dtype))
        source = f"{name}/constant"
        node = helper.make_node("Identity", [source], [name])
        outputs = KnownResults({name: kind}, frozenset())
        function, _ = host_function([node], outputs, {source: array}, {}, self._setting)
        self._builder.add(HostOp(function, 0), [], name, origins=())

    def _looks_supported(self, node: onnx.NodeProto) -> bool:
        """Whether a node whose inputs are missing could be part of the graph with them."""
        if qualified(node) in IMPORTERS:
            return True
        try:
            static_outputs([node], [], self._arrays, {}, self._setting)
        except UnsupportedError:
            return False
        return True

    def _reject(self, node: onnx.NodeProto, label: str, reason: str) -> None:
        """Refuse a node, and what left a value that it reads without a type."""
        cause = self._refused.cause(read_names(node))
        if cause is not None:
            self._refused.add(cause)
        self._refused.add(Unsupported(qualified(node), label, reason))
        self._missing.update(node.output)

    def _label(self, node: onnx.NodeProto) -> str:
        """The node's own name where it has one that is not taken, else its first output's."""
        candidates = [node.name, *node.output, f"{node.name}#{len(self._labels)}"]
        label = next(c for c in candidates if c and c not in self._labels)
        self._labels.add(label)
        return str(label)

    def _dtypes(self, node: onnx.NodeProto) -> dict[str, str]:
        """Element types of the node's inputs, where they are known."""
        types = self._builder.types
        known = {n: str(self._arrays[n].dtype) for n in node.input if n in self._arrays}
        return known | {name: types[name].dtype for name in node.input if name in types}

    def _version(self, domain: str) -> int:
        versions = [o.version for o in self._setting.opsets if o.domain == domain]
        return max(versions, default=0)
