"""The compute DAG: a whole tensor program, the thing that is tuned."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, NamedTuple

from sketch.analysis.access import reads
from sketch.analysis.expr_size import check_size
from sketch.analysis.flops import stage_flops
from sketch.analysis.read_bounds import check_reads
from sketch.analysis.structure import StructuralForm, structural_form
from sketch.dag.printer import print_dag
from sketch.errors import ExpressionError, quoted
from sketch.lang.expr import Expr, Load
from sketch.lang.kept import KeepsResults
from sketch.lang.rewrite import rewrite
from sketch.lang.store_cover import check_stores
from sketch.lang.tensor import Compute, Operation, Placeholder, SharedBuffer, Tensor, tensors_of

# Longer programs are cut into several: what a schedule costs grows faster than their length.
MOST_STAGES: Final = 1000


class OutputArray(NamedTuple):
    """A result of a program, as the caller sees it."""

    name: str
    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, eq=False, init=False, repr=False)
class ComputeDAG(KeepsResults):
    """Stages in execution order, from placeholders to outputs.

    Attributes:
        outputs: the results, in the order given; each is computed by a stage.
        stages: all stages, producers before consumers.
        inputs: all placeholders, constants too, in the order of their first use.
    """

    outputs: tuple[Tensor, ...]
    stages: tuple[Compute, ...] = field(init=False)
    inputs: tuple[Tensor, ...] = field(init=False)

    def __init__(self, outputs: Sequence[Tensor] | Tensor) -> None:
        self._collect(_given(outputs))
        _check_length(self.stages)
        _check_outputs(self.outputs)
        _check_names(self)
        for op in self.stages:
            check_size(op)
            check_reads(op)
        check_stores(self.outputs, self.stages)

    def _collect(self, outputs: tuple[Tensor, ...]) -> None:
        stages, inputs = collect(outputs)
        object.__setattr__(self, "outputs", outputs)
        object.__setattr__(self, "stages", stages)
        object.__setattr__(self, "inputs", inputs)

    def __str__(self) -> str:
        return print_dag(self)

    def __repr__(self) -> str:
        return f"ComputeDAG({self.key}: {', '.join(op.name for op in self.stages)})"

    @cached_property
    def key(self) -> str:
        """Structural hash, sixteen hex digits: free of names, equal in every process."""
        return self._form.key

    @property
    def canonical_inputs(self) -> tuple[Tensor, ...]:
        """The placeholders in an order that programs of one key share, whatever their names."""
        return self._form.inputs

    @cached_property
    def _form(self) -> StructuralForm:
        return structural_form(self.inputs, self.stages, self.outputs)

    @cached_property
    def names(self) -> frozenset[str]:
        """All names in the program: of stages, placeholders, tensors and shared buffers."""
        tensors = [t for op in self.stages for t in tensors_of(op)]
        buffers = (op.store.buffer.name for op in self.stages if op.store is not None)
        stages = (op.name for op in self.stages)
        return frozenset((*(t.name for t in (*self.inputs, *tensors)), *stages, *buffers))

    @cached_property
    def flops(self) -> float:
        """Floating-point operations of one execution."""
        return float(sum(stage_flops(op) for op in self.stages))

    def stage_flops(self, op: Compute) -> float:
        """Floating-point operations of one stage."""
        return stage_flops(op)

    @cached_property
    def output_arrays(self) -> tuple[OutputArray, ...]:
        """The result arrays; stages that share a buffer make one."""
        arrays = {
            output_name(t): OutputArray(output_name(t), output_shape(t), t.dtype)
            for t in self.outputs
        }
        return tuple(arrays.values())

    @cached_property
    def output_names(self) -> tuple[str, ...]:
        """Names of the result arrays: the buffer where stages share one, else the tensor's."""
        return tuple(array.name for array in self.output_arrays)

    @cached_property
    def output_dtypes(self) -> dict[str, str]:
        """Element types of the result arrays by name."""
        return {output_name(tensor): tensor.dtype for tensor in self.outputs}

    @cached_property
    def stages_of_outputs(self) -> dict[str, tuple[Tensor, ...]]:
        """The results that the result arrays are made of, by the arrays' names."""
        found: dict[str, tuple[Tensor, ...]] = {}
        for tensor in self.outputs:
            found[output_name(tensor)] = (*found.get(output_name(tensor), ()), tensor)
        return found

    @cached_property
    def _neighbours(self) -> dict[int, tuple[tuple[Operation, ...], tuple[Compute, ...]]]:
        producers: dict[int, dict[int, Operation]] = {}
        consumers: dict[int, dict[int, Compute]] = {}
        for op in self.stages:
            for tensor in reads(op):
                producers.setdefault(id(op), {})[id(tensor.op)] = tensor.op
                consumers.setdefault(id(tensor.op), {})[id(op)] = op
        operations: list[Operation] = [*(t.op for t in self.inputs), *self.stages]
        return {
            id(op): (
                tuple(producers.get(id(op), {}).values()),
                tuple(consumers.get(id(op), {}).values()),
            )
            for op in operations
        }

    def producers(self, op: Operation) -> tuple[Operation, ...]:
        """The operations that ``op`` reads directly, in order of appearance."""
        return self._neighbours[id(op)][0]

    def consumers(self, op: Operation) -> tuple[Compute, ...]:
        """The stages that read ``op`` directly, in execution order."""
        return self._neighbours[id(op)][1]

    @cached_property
    def output_stages(self) -> tuple[int, ...]:
        """For each result of the program, the position of the stage that computes it."""
        places = {id(op): position for position, op in enumerate(self.stages)}
        return tuple(places[id(tensor.op)] for tensor in self.outputs)

    def is_output(self, op: Operation) -> bool:
        """Whether a result of ``op`` is a result of the program."""
        return any(tensor.op is op for tensor in self.outputs)

    def stage(self, name: str) -> Compute:
        """The stage of that name; raises ExpressionError when there is none."""
        for op in self.stages:
            if op.name == name:
                return op
        known = ", ".join(op.name for op in self.stages)
        raise ExpressionError(f"there is no stage {name!r}", hint=f"stages: {known}")

    def __reduce__(self) -> tuple[object, ...]:
        """Pickled stage by stage: a chain of a thousand stages is no nest of a thousand objects.

        A key that is known goes along: to find it takes as long as to read all the rest.
        """
        inputs = tuple(tensor.op for tensor in self.inputs)
        outputs = tuple((tensor.op.name, tensor.output) for tensor in self.outputs)
        stages = tuple(_apart(op) for op in self.stages)
        return _joined, (inputs, stages, outputs, self.__dict__.get("key"))


def _apart(op: Compute) -> Compute:
    """``op`` with placeholders of the same names in the place of what it reads."""

    def stand_in(load: Load) -> Load:
        tensor = load.tensor
        return Load(
            Tensor(Placeholder(tensor.op.name, tensor.shape, tensor.dtype, False), tensor.output),
            load.indices,
        )

    return _with_loads(op, stand_in)


def _joined(
    inputs: tuple[Placeholder, ...],
    stages: tuple[Compute, ...],
    outputs: tuple[tuple[str, int], ...],
    key: str | None,
) -> ComputeDAG:
    """The program whose stages were taken apart: it was checked before.

    ``key``: its key, where it was known.
    """
    made: dict[str, Operation] = {op.name: op for op in inputs}

    def actual(load: Load) -> Load:
        return Load(Tensor(made[load.tensor.op.name], load.tensor.output), load.indices)

    for op in stages:
        made[op.name] = _with_loads(op, actual)
    dag = ComputeDAG.__new__(ComputeDAG)
    dag._collect(tuple(Tensor(made[name], output) for name, output in outputs))
    if key is not None:
        dag.__dict__["key"] = key
    return dag


def _with_loads(op: Compute, change: Callable[[Load], Load]) -> Compute:
    """``op`` with every load changed, its indices first."""

    def leaf(node: Expr) -> Expr | None:
        if not isinstance(node, Load):
            return None
        return change(Load(node.tensor, tuple(rewrite(index, leaf) for index in node.indices)))

    return replace(op, bodies=tuple(rewrite(body, leaf) for body in op.bodies))


def output_name(tensor: Tensor) -> str:
    """The name of the array that holds an output."""
    store = tensor.op.store if isinstance(tensor.op, Compute) else None
    return tensor.name if store is None else store.buffer.name


def output_shape(tensor: Tensor) -> tuple[int, ...]:
    """The shape of the array that holds an output: of the shared buffer where there is one."""
    store = tensor.op.store if isinstance(tensor.op, Compute) else None
    return tensor.shape if store is None else store.buffer.shape


def collect(outputs: tuple[Tensor, ...]) -> tuple[tuple[Compute, ...], tuple[Tensor, ...]]:
    """Depth-first from the outputs, without recursion: networks make deep programs."""
    stages: list[Compute] = []
    inputs: list[Tensor] = []
    done: set[int] = set()
    pending: list[tuple[Tensor, bool]] = [(tensor, False) for tensor in reversed(outputs)]
    while pending:
        tensor, expanded = pending.pop()
        op = tensor.op
        if id(op) in done:
            continue
        if isinstance(op, Placeholder):
            done.add(id(op))
            inputs.append(tensor)
        elif expanded:
            done.add(id(op))
            stages.append(op)
        else:
            pending.append((tensor, True))
            pending.extend((read, False) for read in reversed(tuple(reads(op))))
    return tuple(stages), tuple(inputs)


def _check_length(stages: Sequence[Compute]) -> None:
    if len(stages) > MOST_STAGES:
        raise ExpressionError(
            f"a program of {len(stages)} stages",
            f"output {stages[-1].name}",
            f"at most {MOST_STAGES}: make several programs of it (networks are cut by themselves)",
        )


def _given(outputs: object) -> tuple[Tensor, ...]:
    """One output or several; raises ExpressionError where something else is given."""
    several = isinstance(outputs, Iterable) and not isinstance(outputs, Tensor)
    found = tuple(outputs) if isinstance(outputs, Iterable) and several else (outputs,)
    for item in found:
        if not isinstance(item, Tensor):
            raise ExpressionError(
                f"{quoted(item)} is no tensor", "outputs of a program", "give what compute returned"
            )
    return found


def _check_outputs(outputs: tuple[Tensor, ...]) -> None:
    if not outputs:
        raise ExpressionError("a program needs at least one output")
    for tensor in outputs:
        if isinstance(tensor.op, Placeholder):
            raise ExpressionError(
                f"output {tensor.name} is an input of the program",
                hint="an output must be computed; copy it with compute(...)",
            )
    if len({(id(t.op), t.output) for t in outputs}) < len(outputs):
        names = [tensor.name for tensor in outputs]
        raise ExpressionError(f"an output is listed twice: {names}")


def repeated_names(stages: Sequence[Compute], inputs: Sequence[Tensor]) -> tuple[str, ...]:
    """What two different stages or placeholders are called, in alphabetical order."""
    counts = Counter([*(t.op.name for t in inputs), *(op.name for op in stages)])
    return tuple(sorted(name for name, count in counts.items() if count > 1))


def _check_names(dag: ComputeDAG) -> None:
    repeated = repeated_names(dag.stages, dag.inputs)
    if repeated:
        raise ExpressionError(
            f"{repeated[0]!r} names two different stages or placeholders",
            hint="give each its own name",
        )
    operations: list[Operation] = [*dag.stages, *(tensor.op for tensor in dag.inputs)]
    known = {op.name: op for op in operations}
    for op in dag.stages:
        for tensor in tensors_of(op):
            if tensor.name != op.name and tensor.name in known:
                raise ExpressionError(
                    f"{tensor.name!r} is what output {tensor.output} of stage {op.name} is called",
                    f"stage {tensor.name}",
                    "give one of the two another name",
                )
    _check_buffer_names(dag.stages, known)


def _check_buffer_names(stages: Sequence[Compute], known: Mapping[str, Operation]) -> None:
    """A shared buffer is called as no other, and as no tensor but a stage that writes it."""
    buffers: dict[str, SharedBuffer] = {}
    for op in stages:
        if op.store is None:
            continue
        buffer = buffers.setdefault(op.store.buffer.name, op.store.buffer)
        owner = known.get(buffer.name, op)
        store = owner.store if isinstance(owner, Compute) else None
        if buffer is not op.store.buffer or store is None or store.buffer is not buffer:
            raise ExpressionError(
                f"buffer {buffer.name!r} has the name of another tensor", f"stage {op.name}"
            )
