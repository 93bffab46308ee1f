"""A graph of ATen operators that compiles itself for the shapes that it meets."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any, Final

from autosched.graph.errors import ModelImportError
from autosched.network_source import from_onnx
from autosched.torch_frontend.agreement import agree
from autosched.torch_frontend.all_rows import network_with_all_rows
from autosched.torch_frontend.aten import NotTakenError
from autosched.torch_frontend.background import BackgroundTuning
from autosched.torch_frontend.bound_graph import bind_constants
from autosched.torch_frontend.complex_numbers import real_form
from autosched.torch_frontend.constants_watch import ConstantsWatch
from autosched.torch_frontend.export import exported
from autosched.torch_frontend.graph_cache import KeptGraph, kept_graph
from autosched.torch_frontend.layout import Layout, laid_out, layouts_of
from autosched.torch_frontend.network_module import network_module
from autosched.torch_frontend.number_results import (
    check_numbers,
    is_computed,
    is_number,
    numbers_of,
)
from autosched.torch_frontend.options import BackendOptions
from autosched.torch_frontend.results import with_types_of
from autosched.torch_frontend.tensors import (
    check_dtype,
    check_result,
    is_plain,
    is_tracked,
    signature_of,
    to_numpy,
    to_torch,
    version_of,
)
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.graph.ir import Network
    from autosched.runtime.module import Module

LOG: Final = logging.getLogger("autosched.torch")
_Compiled = tuple["Module", BackgroundTuning | None]
# A constant that was written so often, each time so soon after something was compiled, is none.
_OFTEN: Final = 2
_SOON: Final = 16


@cache
def _compiling() -> threading.RLock:
    """One thread compiles at a time: torch's exporter has a state of the whole process."""
    return threading.RLock()


_compiling()
# A forked child does not wait for a thread of its parent.
os.register_at_fork(after_in_child=_compiling.cache_clear)


@dataclass(frozen=True, slots=True)
class _Specialised:
    """A graph compiled for certain shapes.

    Attributes:
        module: None: torch runs it.
        versions: state of the constants that were compiled in.
        watch: says at once that they have it still; no other tensor has the same version meanwhile.
        inputs: name and position of each input of the module.
        numbers: results that are no tensors, by position; shapes decide them.
        layouts: of results that do not lie in memory of their own in row-major order.
        tuning: makes a faster module meanwhile.
        kept: where that one is kept.
    """

    module: Module | None
    versions: tuple[Any, ...]
    watch: ConstantsWatch
    inputs: tuple[tuple[str, int], ...] = ()
    numbers: Mapping[int, Any] = field(default_factory=dict)
    layouts: Mapping[int, Layout] = field(default_factory=dict)
    tuning: BackgroundTuning | None = None
    kept: KeptGraph | None = None


class CompiledGraph:
    """A graph of ATen operators that compiles itself for the shapes it meets.

    Args:
        graph: a ``torch.fx.GraphModule``.
        static: positions of the inputs that are constants, as long as nobody changes them.
        options: of every compilation.
        name: for people, as torch's own logs have it.
    """

    def __init__(
        self, graph: Any, static: frozenset[int], options: BackendOptions, name: str = ""
    ) -> None:
        self._graph = graph
        self._options = options
        self._name = f"graph {name}".rstrip()
        nodes = list(graph.graph.nodes)
        self._placeholders = [node for node in nodes if node.op == "placeholder"]
        self._divide(static)
        self._outputs: tuple[Any, ...] = tuple(nodes[-1].args[0])
        first = {id(value): index for index, value in reversed(list(enumerate(self._outputs)))}
        self._sources = [first[id(value)] for value in self._outputs]
        self._known: dict[tuple[Any, ...], _Specialised] = {}
        self._full = False
        self._calls = 0  # since something was compiled
        self._written: Counter[int] = Counter()
        self._counted: dict[int, Any] = {}  # the last version of each

    def _divide(self, static: frozenset[int]) -> None:
        """Say which inputs are constants, and which are not."""
        self._static, self._constant = static, sorted(static)
        self._dynamic = [n for n in range(len(self._placeholders)) if n not in static]

    def __call__(self, *args: Any) -> tuple[Any, ...]:
        """The graph's results, as torch would compute them."""
        dynamic = [args[index] for index in self._dynamic]
        if not all(map(is_plain, dynamic)):
            return self._with_torch(args)
        key = tuple(map(signature_of, dynamic))
        known = self._known.get(key)
        if known is None or not known.watch.holds([args[index] for index in self._constant]):
            with _compiling():
                key, known = self._looked_up(args)
        self._calls += 1
        if known is None or known.module is None:
            return self._with_torch(args)
        results = self._run(known.module, known.inputs, args, known.numbers)
        tuned = None if known.tuning is None else known.tuning.take()
        if tuned is not None:
            with _compiling():
                # unless another thread has compiled anew meanwhile
                if self._known.get(key) is known:
                    self._swap(key, tuned, args)
        placed = laid_out(results, known.layouts)
        return tuple(placed[source] for source in self._sources)

    def _looked_up(self, args: Sequence[Any]) -> tuple[tuple[Any, ...], _Specialised | None]:
        """What was compiled for such inputs and these constants, or is compiled now, and its key;
        None: torch runs the graph.
        """
        key = tuple(signature_of(args[index]) for index in self._dynamic)
        constant = [args[index] for index in self._constant]
        if not all(map(is_plain, constant)) or not all(map(is_tracked, constant)):
            return key, None
        known = self._known.get(key)
        if known is None and len(self._known) >= self._options.shapes:
            self._say_full()
            return key, None
        versions = tuple(map(version_of, constant))
        if known is not None and self._is_often_written(known.versions, versions):
            return self._looked_up(args)
        if known is None or known.versions != versions:
            # Weights that change while the process runs are of no use to others.
            known = self._specialise(args, versions, keep=known is None)
        elif not known.watch.holds(constant):
            known = replace(known, watch=ConstantsWatch(constant))
        self._known[key] = known
        return key, known

    def _is_often_written(self, before: Sequence[Any], now: Sequence[Any]) -> bool:
        """Whether constants turn out to be none, such as the buffers that a model itself writes:
        compiling takes seconds.  From now on they are inputs.
        """
        pairs = zip(self._constant, before, now, strict=True)
        changed = {position: new for position, old, new in pairs if old != new}
        # for each set of shapes there is an old version: what was written once counts once
        new = {p: v for p, v in changed.items() if self._counted.get(p) != v}
        self._counted.update(new)
        if self._calls < _SOON:
            self._written.update(new.keys())
        often = {position for position in changed if self._written[position] >= _OFTEN}
        if often:
            LOG.info("%s writes %d of its constants: they are inputs now", self._name, len(often))
            self._divide(self._static - often)
            self._known.clear()
        return bool(often)

    def _say_full(self) -> None:
        """Once: each set of shapes takes seconds, and memory for its own copy of the constants."""
        if not self._full:
            most = self._options.shapes
            LOG.warning(
                "%s is compiled for %d sets of input shapes; with others torch runs it "
                '(options={"shapes": %d} allows more)',
                self._name, most, 2 * most,
            )  # fmt: skip
        self._full = True

    def _with_torch(self, args: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(self._graph(*args))

    def _specialise(
        self, args: Sequence[Any], versions: tuple[Any, ...], keep: bool
    ) -> _Specialised:
        self._calls = 0
        constant = [args[index] for index in self._constant]
        if not self._computed:
            LOG.debug("%s computes no tensor: torch runs it", self._name)
            return _Specialised(None, versions, ConstantsWatch(constant))
        start = time.perf_counter()
        try:
            check_numbers(self._outputs)
            kept = kept_graph(self._graph, args, self._static, self._options) if keep else None
            module, tuning, where = self._recalled(kept, args), None, ", from the cache"
            if module is None:
                module, tuning = self._compiled_or_refused(kept, args)
                where = ""
        except AutoschedError as error:
            LOG.warning(
                "%s of %d operators stays with torch: %s", self._name, self._operators, error
            )
            return _Specialised(None, versions, ConstantsWatch(constant))
        self._report(module, time.perf_counter() - start, where)
        theirs = self._with_torch(args)
        layouts = layouts_of(theirs, self._computed)
        inputs, numbers = self._inputs(module, args), numbers_of(self._outputs, theirs)
        return _Specialised(
            module,
            versions,
            ConstantsWatch(constant),
            inputs,
            numbers,
            layouts,
            tuning,
            kept,
        )

    def _swap(self, key: tuple[Any, ...], tuned: Module, args: Sequence[Any]) -> None:
        """Use tuned kernels for calls from now on, if they compute the same."""
        known = replace(self._known[key], tuning=None)
        try:
            self._check_results(tuned, args)
        except ModelImportError as error:
            LOG.warning("%s: its tuned kernels are not used: %s", self._name, error)
        else:
            known = replace(known, module=tuned)
            if known.kept is not None:
                known.kept.save(tuned)
            LOG.info("%s: its tuned kernels are used from now on", self._name)
        self._known[key] = known

    @property
    def _operators(self) -> int:
        return sum(node.op == "call_function" for node in self._graph.graph.nodes)

    @cached_property
    def _computed(self) -> list[int]:
        """Positions of the tensors that the graph computes: no constants, no inputs, each once."""
        return [
            index
            for index, value in enumerate(self._outputs)
            if is_computed(value) and not is_number(value) and self._sources[index] == index
        ]

    @cached_property
    def _positions(self) -> dict[str, int]:
        """Positions of the inputs, by name."""
        return {node.name: index for index, node in enumerate(self._placeholders)}

    def _variable(self, args: Sequence[Any]) -> list[int]:
        """Positions of the arguments that are inputs of the module."""
        return [
            index
            for index, value in enumerate(args)
            if hasattr(value, "dtype") and index not in self._static
        ]

    def _inputs(self, module: Module, args: Sequence[Any]) -> tuple[tuple[str, int], ...]:
        names = [spec.name for spec in module.inputs]
        return tuple(zip(names, self._variable(args), strict=True))

    def _recalled(self, kept: KeptGraph | None, args: Sequence[Any]) -> Module | None:
        """What another process compiled, if torch computes the same here."""
        module = None if kept is None else kept.load()
        if kept is None or module is None:
            return None
        try:
            self._check_results(module, args)
        except ModelImportError as error:
            LOG.info("%s is compiled anew: in the cached one, %s", self._name, error)
            kept.drop()
            return None
        return module

    def _compiled_or_refused(self, kept: KeptGraph | None, args: Sequence[Any]) -> _Compiled:
        """``_compiled``; what cannot be compiled is not tried again by other processes."""
        reason = None if kept is None else kept.refusal()
        if reason is not None:
            raise ModelImportError(reason)
        try:
            return self._compiled(kept, args)
        except ModelImportError as error:
            if kept is not None:
                kept.refuse(str(error))
            raise

    def _compiled(self, kept: KeptGraph | None, args: Sequence[Any]) -> _Compiled:
        """Compile the graph as it is, or if that is not possible as torch's exporter writes it.

        Raises:
            ModelImportError: neither is possible, an input has a type that no network takes, or a
                result is complex.
        """
        for index in self._variable(args):
            check_dtype(args[index], self._placeholders[index].name)
        theirs = [self._outputs[index] for index in self._computed]
        for output in theirs:
            check_result(output.meta["val"], output.name)
        graph, given = self._graph, args
        try:
            graph, given = real_form(graph, args)
            network = network_with_all_rows(graph, given, self._static, self._computed)
            return self._checked(network, kept, args)
        except (NotTakenError, ModelImportError) as reason:
            LOG.debug("%s is taken through ONNX: %s", self._name, reason)
        variable = self._variable(args)
        bound = bind_constants(graph, given, variable, self._computed)
        network = from_onnx(exported(bound, [args[index].detach() for index in variable]))
        network = with_types_of([output.meta["val"] for output in theirs], network)
        return self._checked(network, kept, args)

    def _checked(self, network: Network, kept: KeptGraph | None, args: Sequence[Any]) -> _Compiled:
        """A network compiled and compared with torch, and kept."""
        if kept is not None:
            network = replace(network, name=kept.name)
        background = self._options.tune == "background"
        options = self._options.without_tuning() if background else self._options
        module = network_module(network, options, self._name)
        self._check_results(module, args)
        if background:
            return module, BackgroundTuning(network, self._options, self._name)
        if kept is not None:
            kept.save(module)
        return module, None

    def _report(self, module: Module, seconds: float, where: str) -> None:
        """Tell the logger what became of the graph; what runs on the host is a warning."""
        program = module.program
        kernels, host = len(program.kernel_steps), len(program.host_steps)
        LOG.info(
            "%s: %d kernels, %d on the host, %.1f s%s", self._name, kernels, host, seconds, where
        )
        on_host = ", ".join(f"{s.info.op} ({s.info.name})" for s in program.host_steps)
        if on_host:
            LOG.warning("operators without a kernel run on the host: %s", on_host)

    def _check_results(self, module: Module, args: Sequence[Any]) -> None:
        """Compare with torch once: its exporter and ONNX may see an operator in another way."""
        expected = self._with_torch(args)
        numbers = numbers_of(self._outputs, expected)
        ours = self._run(module, self._inputs(module, args), args, numbers)
        for index, theirs in enumerate(expected):
            if index in self._computed and not agree(ours[index], theirs):
                raise ModelImportError(f"output {index} is not what torch computes")

    def _run(
        self,
        module: Module,
        inputs: Sequence[tuple[str, int]],
        args: Sequence[Any],
        numbers: Mapping[int, Any],
    ) -> tuple[Any, ...]:
        results = module.run({name: to_numpy(args[index]) for name, index in inputs})
        computed = dict(zip(self._computed, results.values(), strict=True))
        tensors = {index: to_torch(array) for index, array in computed.items()}
        known = {**numbers, **tensors}
        return tuple(
            known[source]
            if source in known
            else (args[self._positions[value.name]] if hasattr(value, "op") else value)
            for source, value in zip(self._sources, self._outputs, strict=True)
        )
