"""The walk over a nest that checks all of it.

1. Stages and arguments have names of their own; every buffer has one producer.
2. Loops run at least once; parallel loops stand at the top of a root nest and never reduce;
   vectorised loops are innermost.
3. Statements use variables inside their loops, and private buffers inside their allocation.
4. What they write and read lies inside the buffers, given the loops that really run, predicates,
   clipped loops and the conditions of selects; packed buffers are accessed by panels.
5. Two iterations of a parallel loop never write the same element.
6. What is read was computed before, and outputs are computed as a whole.
"""

from __future__ import annotations

from collections import Counter

from sketch.errors import LoweringError
from sketch.nest.loopnest import (
    Affine,
    Allocate,
    Branch,
    Buffer,
    BufferLoad,
    Loop,
    LoopNest,
    LoopVar,
    Node,
    Scope,
    Store,
)
from sketch.verify.facts import Facts
from sketch.verify.loops import check_disjoint, check_loop
from sketch.verify.regions import Computed, WriteSite, check_computed, computed_by
from sketch.verify.statements import check_load, check_targets, visit_loads

_GIVEN = (Scope.INPUT, Scope.CONSTANT)
_SHARED = (Scope.OUTPUT, Scope.WORKSPACE)


def verify(nest: LoopNest) -> None:
    """Check an int nest; raises LoweringError at the first violation, with the user's rules."""
    try:
        _verify(nest)
    except LoweringError as error:
        if not nest.rules:
            raise
        raise error.at(f"scheduled by rule {', '.join(nest.rules)}") from error


def _verify(nest: LoopNest) -> None:
    _check_arguments(nest)
    walk = _Walk(nest)
    for root in nest.roots:
        walk.nodes((root,), (), Facts({}, {}, ()))
    walk.finish()


def _check_arguments(nest: LoopNest) -> None:
    names = Counter(buffer.name for buffer in nest.arguments)
    for name, count in names.items():
        if count > 1:
            raise LoweringError(
                f"{count} arguments are called {name}", f"nest {nest.name}", "rename one"
            )
    for buffer in nest.arguments:
        if buffer.scope is Scope.OUTPUT and any(int(step) != 1 for step in buffer.steps):
            raise LoweringError(f"output {buffer.name} is packed", f"nest {nest.name}")
        if buffer.scope not in (*_GIVEN, Scope.OUTPUT):
            raise LoweringError(
                f"argument {buffer.name} is {buffer.scope.value} memory",
                f"nest {nest.name}",
                "compute outputs at the root, not inside other stages",
            )


class _Walk:
    """Visits statements in the order of execution; remembers who wrote which buffer."""

    def __init__(self, nest: LoopNest) -> None:
        self._nest = nest
        self._visible = {*nest.arguments, *nest.workspaces}
        self._writers: dict[Buffer, list[WriteSite]] = {}

    def nodes(self, nodes: tuple[Node, ...], loops: tuple[Loop, ...], facts: Facts) -> None:
        for node in nodes:
            match node:
                case Loop():
                    check_loop(node, loops)
                    self.nodes(node.body, (*loops, node), facts.inside(node))
                case Allocate(buffer, body):
                    self._visible.add(buffer)
                    self.nodes(body, loops, facts)
                    self._visible.discard(buffer)
                case Branch(_, cases):
                    for case in cases:
                        self.nodes(case.body, loops, facts)
                case Store():
                    self._store(node, loops, facts)

    def _store(self, store: Store, loops: tuple[Loop, ...], facts: Facts) -> None:
        where = f"statement of stage {store.stage_name}"
        facts = facts.also(store.predicates, where)
        self._claim(store, loops, where)
        for buffer in store.targets:
            self._check_visible(buffer, where)
        if facts.impossible:
            return  # never executed
        check_targets(store, facts)
        if store.targets[0].scope in _SHARED:
            check_disjoint(store, loops, facts)
        read: dict[Buffer, list[Computed]] = {}  # what the statement reads of each buffer

        def check(load: BufferLoad, known: Facts) -> None:
            self._check_visible(load.buffer, known.where)
            check_load(load, known)
            if load.buffer.scope in _GIVEN:
                return
            if load.buffer not in read:
                read[load.buffer] = self._computed(load.buffer, loops, known.where)
            for computed in read[load.buffer]:
                check_computed(computed, load.indices, known)

        for value in store.values:
            visit_loads(value, facts, check)

    def _claim(self, store: Store, loops: tuple[Loop, ...], where: str) -> None:
        """A buffer has one producer: a statement, and before a reduction, what it starts from."""
        for buffer in store.targets:
            before = self._writers.setdefault(buffer, [])
            if buffer.scope in _GIVEN:
                raise LoweringError(f"writes {buffer.scope.value} {buffer.name}", where)
            if store.reducer is not None and not before:
                raise LoweringError(f"adds to {buffer.name} before anything is there", where)
            if store.stage is not None and any(self._clash(store, other.store) for other in before):
                raise LoweringError(
                    f"buffer {buffer.name} is written by two statements",
                    where,
                    "stages need names of their own",
                )
            before.append(WriteSite(store, loops))

    @staticmethod
    def _clash(store: Store, other: Store) -> bool:
        if other.stage is not store.stage:
            return store.targets[0].scope is not Scope.OUTPUT
        return store.reducer is None or other.reducer is not None

    def _check_visible(self, buffer: Buffer, where: str) -> None:
        if buffer not in self._visible:
            raise LoweringError(f"buffer {buffer.name} is used outside its allocation", where)

    def _computed(self, buffer: Buffer, loops: tuple[Loop, ...], where: str) -> list[Computed]:
        """What is computed of a buffer that is read inside ``loops``."""
        writers = self._writers.get(buffer)
        if not writers:
            raise LoweringError(
                f"reads {buffer.name} before it is computed",
                where,
                "compute a stage before its consumers",
            )
        return _of_one_stage(writers, buffer, loops)

    def finish(self) -> None:
        """Outputs are computed as a whole."""
        for buffer in self._nest.arguments:
            if buffer.scope is not Scope.OUTPUT:
                continue
            writers = self._writers.get(buffer)
            if not writers:
                raise LoweringError(f"output {buffer.name} is never written", self._nest.name)
            self._check_whole(buffer, writers)

    def _check_whole(self, buffer: Buffer, writers: list[WriteSite]) -> None:
        reaches = {LoopVar(f"x{dim}"): int(extent) - 1 for dim, extent in enumerate(buffer.shape)}
        indices = tuple(Affine(((var, 1),)) for var in reaches)
        facts = Facts(reaches, dict.fromkeys(reaches, 1), (), f"caller of {self._nest.name}")
        for computed in _of_one_stage(writers, buffer, ()):
            check_computed(computed, indices, facts)


def _of_one_stage(
    writers: list[WriteSite], buffer: Buffer, loops: tuple[Loop, ...]
) -> list[Computed]:
    """What each writer computes, as seen from ``loops``; none where several stages share it."""
    if len({writer.store.stage for writer in writers}) > 1:
        return []
    return [computed_by(writer, buffer, loops) for writer in writers]
