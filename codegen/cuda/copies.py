"""CUDA C++ text of what all threads of a block do together: points shared out, copies of tiles."""

from __future__ import annotations

from abc import ABC, abstractmethod

from codegen.cuda.device import Binding, Cooperative, DeviceFunction, DeviceNode, Fetch, points
from codegen.cuda.rounds import RoundPart, parts_of, unrolling
from codegen.cuda.running import RunningPlaces
from codegen.cuda.staging import Staging
from codegen.cuda.statements import StatementText
from codegen.passes.affine import flatten
from codegen.passes.rewrite import substitute_index
from sketch.nest.loopnest import Affine, Buffer, Index, LoopVar
from sketch.nest.walk import index_variables


class CopyText(StatementText, ABC):
    """Lines of a function, and how to write what its threads share out."""

    def __init__(self, function: DeviceFunction) -> None:
        super().__init__()
        self._function = function
        # Of a tile that is copied ahead: whether it exists; "" where all do, None elsewhere.
        self._ahead: str | None = None
        # Of a tile that goes through registers: which ones, and which part of them in a round.
        self._staging: Staging | None = None
        self._place = "0"
        self._running: RunningPlaces | None = None
        # Of a round: the variable of the first one, the step, and the text of the turn.
        self._turns: dict[LoopVar, tuple[LoopVar | None, int, str]] = {}

    @abstractmethod
    def _nodes(self, nodes: tuple[DeviceNode, ...]) -> None:
        """Write what a point's body has."""

    def _decode(self, bindings: tuple[Binding, ...], index: str, source: str = "") -> None:
        """Define the variables of a linear index."""
        if source and bindings:
            self._line(f"const index_t {index} = {source};")
        for number, binding in enumerate(bindings):
            inner = points(bindings[number + 1 :])
            text = index if inner == 1 else f"{index} / {inner}"
            if number:
                text += f" % {binding.extent}"
            if binding.stride != 1:
                text += f" * {binding.stride}"
            self._constant(binding.var, text)

    def _constant(self, var: LoopVar, text: str) -> str:
        """Define a variable; its identifier."""
        name = self._expressions.variable(var)
        self._line(f"const index_t {name} = {text};")
        return name

    def _cooperative(self, node: Cooperative) -> None:
        """Whole rounds of all threads, known when it is compiled, and one of the rest."""
        count, threads = points(node.bindings), self._function.block
        rounds, rest = divmod(count, threads)
        start = "thread" if self._function.threads else "0"
        if rounds > 1:
            self._line(unrolling(rounds, (node,)))
            self._line(f"for (index_t round = 0; round < {rounds}; ++round) {{")
            self._place = "round"
            self._round(node, start)
        elif rounds == 1:
            self._line("{")
            self._place = "0"
            self._points(node, start)
        if rest:
            self._line(f"if ({start} < {rest}) {{")
            self._place = str(rounds)
            self._points(node, f"{start} + {rounds * threads}" if rounds else start)

    def _round(self, node: Cooperative, start: str) -> None:
        """One of several rounds; what changes by fixed steps is known to the compiler."""
        threads = self._function.block
        parts = parts_of(node.bindings, threads, start)
        if parts is None:
            self._points(node, f"{start} + {threads} * round")
            return
        self._depth += 1
        for part in parts:
            self._part(part)
        self._nodes(node.body)
        self._turns.clear()
        self._depth -= 1
        self._line("}")

    def _part(self, part: RoundPart) -> None:
        var, value = part.binding.var, part.first
        if part.step:
            first = LoopVar(f"{var.name}.first") if value else None
            value = "" if first is None else self._constant(first, value)
            self._turns[var] = (first, part.step, part.turn)
            value = f"{value} + " * bool(value) + f"{part.step} * {part.turn}"
        self._constant(var, value or "0")

    def _points(self, node: Cooperative, point: str) -> None:
        self._depth += 1
        if node.bindings:
            self._line(f"const index_t point = {point};")
        self._decode(node.bindings, "point")
        self._nodes(node.body)
        self._depth -= 1
        self._line("}")

    def _fetch(self, node: Fetch) -> None:
        if self._staging is not None:
            self._stage(node, self._staging)
            return
        name = "copy_ahead" if self._ahead is not None and node.asynchronous else "copy_piece"
        if node.count == 1 and name == "copy_piece":
            self._store(node.store)
            return
        running = self._running and self._running.address(node, self._turns, self._expressions)
        arguments = [
            self._address(node.store.targets[0], node.store.indices),
            running or self._address(node.source.buffer, node.source.indices),
        ]
        tests = [self._ahead] if self._ahead else []
        if node.condition is not None:
            tests.append(self._expressions.expr(node.condition, {}))
        if tests:
            arguments.append(" && ".join(tests))
        self._line(f"{name}<{node.count}>({', '.join(arguments)});")

    def _stage(self, node: Fetch, staging: Staging) -> None:
        """From global memory to registers, or from there to shared memory."""
        kept = f"&{staging.names[node]}[{node.count} * {self._place}]"
        if staging.loads:
            arguments = [kept, self._address(node.source.buffer, node.source.indices)]
            if node.condition is not None:
                arguments.append(self._expressions.expr(node.condition, {}))
        else:
            arguments = [self._address(node.store.targets[0], node.store.indices), kept]
        self._line(f"copy_piece<{node.count}>({', '.join(arguments)});")

    def _address(self, buffer: Buffer, indices: tuple[Index, ...]) -> str:
        """Of an element; in a round, where it is in the first one and how far from there."""
        form, rest = flatten(buffer, indices)
        own_steps = set[LoopVar]().union(*(index_variables(index) for index, _ in rest))
        further = ""
        for var, (first, step, turn) in self._turns.items():
            coefficient = form.coefficient(var) * step
            if var not in own_steps and coefficient and coefficient % buffer.period == 0:
                further += f" + {coefficient} * {turn}"
                own = Affine(((first, 1),) if first is not None else (), 0)
                indices = tuple(substitute_index(index, {var: own}) for index in indices)
        return f"&{self._expressions.element(buffer, indices)}{further}"
