"""Where copies of tiles read, as numbers that move by a fixed step from tile to tile.

The compiler then adds to an address instead of computing it again from the number of the tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from codegen.cuda.device import Cooperative, DeviceFunction, Fetch, Pipeline, points
from codegen.cuda.expressions import Expressions
from codegen.cuda.names import Identifiers
from codegen.cuda.rounds import RoundPart, parts_of
from codegen.passes.affine import constant, flatten, substitute_affine
from sketch.nest.loopnest import Affine, LoopVar

Turns = Mapping[LoopVar, tuple[LoopVar | None, int, str]]


@dataclass(frozen=True, slots=True)
class RunningPlaces:
    """Of the copies of a pipeline whose rounds are alike, where one loop walks its tiles.

    Attributes:
        names: of the variables, by copy.
        steps: elements from tile to tile, by variable.
        lines: that define them for the first tile.
    """

    names: Mapping[Fetch, str]
    steps: Mapping[str, int]
    lines: tuple[str, ...]

    @staticmethod
    def of(
        node: Pipeline, function: DeviceFunction, identifiers: Identifiers, expressions: Expressions
    ) -> RunningPlaces:
        """For a pipeline of a function.

        Args:
            node: the pipeline.
            function: it is in.
            identifiers: where names of variables come from.
            expressions: how they are written.
        """
        names: dict[Fetch, str] = {}
        steps: dict[str, int] = {}
        lines: list[str] = []
        alone = len(node.bindings) == 1 and not node.staged
        for part, again in zip(node.fetch, node.later, strict=True) if alone else ():
            lanes, (tile,) = _lanes(part, function), node.bindings
            copy, later = part.body[0], again.body[0]
            if lanes is None or len(part.body) != 1:
                continue
            if not isinstance(copy, Fetch) or not isinstance(later, Fetch):
                continue
            form, rest = flatten(copy.source.buffer, copy.source.indices)
            if rest:  # other steps than by tile
                continue
            values = {tile.var: constant(0)}
            for lane in lanes:
                values[lane.binding.var] = constant(0)
                if lane.first and form.coefficient(lane.binding.var):
                    first = LoopVar(f"{lane.binding.var.name}.lane")
                    values[lane.binding.var] = Affine(((first, 1),))
                    lines.append(f"const index_t {expressions.variable(first)} = {lane.first};")
            name = identifiers.fresh(f"{copy.source.buffer.name}.next")
            names |= {copy: name, later: name}
            steps[name] = form.coefficient(tile.var) * tile.stride
            start = expressions.affine(substitute_affine(form, values))
            lines.append(f"index_t {name} = {start};")
        return RunningPlaces(names, steps, tuple(lines))

    def advance(self) -> Iterator[str]:
        """Lines after the copies of a tile."""
        return (f"{name} += {step};" for name, step in self.steps.items())

    def address(self, copy: Fetch, turns: Turns, expressions: Expressions) -> str | None:
        """Of the first element of a copy, in one of its rounds; None where it does not run."""
        if copy not in self.names:
            return None
        source = copy.source
        form, _ = flatten(source.buffer, source.indices)
        text = f"&{expressions.buffer(source.buffer)}[{self.names[copy]}]"
        for var, (_, step, turn) in turns.items():
            if further := form.coefficient(var) * step:
                text += f" + {further} * {turn}"
        return text


def _lanes(part: Cooperative, function: DeviceFunction) -> tuple[RoundPart, ...] | None:
    """What the variables of a copy are in its first round; None where the last one is of fewer
    threads than others.
    """
    count, threads = points(part.bindings), function.block
    if count > threads and count % threads:
        return None
    return parts_of(part.bindings, threads, "thread" if function.threads else "0")
