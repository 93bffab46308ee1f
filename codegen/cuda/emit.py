"""CUDA C++ text of device functions: loops, stores, declarations and barriers as they stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from codegen.cuda.block_order import number_of_block
from codegen.cuda.combine import CombineText
from codegen.cuda.copies import CopyText
from codegen.cuda.device import (
    Barrier,
    BeginProducts,
    Combine,
    Cooperative,
    Declare,
    DeviceFunction,
    DeviceNode,
    EndProducts,
    Fetch,
    For,
    LoadFragment,
    Move,
    Multiply,
    MultiplyTiles,
    Pipeline,
    RoundPiece,
    WaitProducts,
    points,
)
from codegen.cuda.kernel import Launch
from codegen.cuda.rounds import unrolling
from codegen.cuda.running import RunningPlaces
from codegen.cuda.scalars import C_TYPES
from codegen.cuda.shared_memory import SharedMemory, read_by_units, tile_elements
from codegen.cuda.signature import globals_of, index_type
from codegen.cuda.staging import Staging
from sketch.nest.loopnest import Buffer, Scope, Store
from sketch.target.fragments import WARP


def emit_function(
    function: DeviceFunction, symbol: str, dynamic_bytes: int = 0
) -> tuple[str, Launch]:
    """The text of a kernel, and how to launch it.

    Args:
        function: the kernel.
        symbol: its name.
        dynamic_bytes: of shared memory, which the launch asks for; 0: it is declared.
    """
    emitter = _Emitter(function, dynamic_bytes)
    return emitter.function(symbol)


class _Emitter(CopyText):
    """Writes one function."""

    def __init__(self, function: DeviceFunction, dynamic_bytes: int) -> None:
        super().__init__(function)
        self._shared = SharedMemory(dynamic_bytes, read_by_units(function))

    def function(self, symbol: str) -> tuple[str, Launch]:
        function = self._function
        written, buffers = globals_of(function)
        types = tuple(
            f"{'' if buffer in written else 'const '}{C_TYPES[buffer.dtype]}*" for buffer in buffers
        )
        parameters = [
            f"{kind} __restrict__ {self._expressions.buffer(buffer)}"
            for kind, buffer in zip(types, buffers, strict=True)
        ]
        self._line(f'extern "C" __global__ void __launch_bounds__({function.block})')
        self._line(f"{symbol}({', '.join(parameters)}) {{")
        self._depth += 1
        self._line(f"typedef {index_type(function)} index_t;")
        lines, number = number_of_block(function.blocks)
        self._lines += ["  " * self._depth + line for line in lines]
        self._decode(function.blocks, "block", number)
        for shift in function.shifts:
            start = self._expressions.variable(shift.of.var)
            self._constant(shift.var, f"{start} < {shift.most} ? {start} : {shift.most}")
        self._decode(function.threads, "thread", "threadIdx.x")
        if function.lanes:
            self._decode(function.lanes, "warp_lane", f"threadIdx.x % {WARP}")
        if function.terms:
            self._decode(function.terms, "warp_term", f"threadIdx.x % {points(function.terms)}")
        if self._shared.dynamic_bytes:
            self._line(f"DYNAMIC_SHARED({self._shared.dynamic_bytes});")
        self._nodes(function.body)
        self._depth -= 1
        self._line("}")
        names = tuple(buffer.name for buffer in buffers)
        return "\n".join(self._lines) + "\n", Launch(
            symbol, function.grid, function.block, names, types, self._shared.dynamic_bytes
        )

    def _nodes(self, nodes: tuple[DeviceNode, ...]) -> None:
        for node in nodes:
            self._node(node)

    def _node(self, node: DeviceNode) -> None:
        match node:
            case For() | Cooperative() | Pipeline():
                self._loop(node)
            case Store():
                self._store(node)
            case Declare(buffer):
                self._declare(buffer, int(buffer.size))
            case Barrier():
                self._barrier()
            case Combine():
                self._combine(node)
            case Move():
                self._move(node)
            case LoadFragment() | Multiply():
                self._on_warp(node)
            case MultiplyTiles() | BeginProducts() | EndProducts() | WaitProducts():
                self._on_tiles(node)
            case Fetch() | RoundPiece():
                self._piece(node)

    def _piece(self, node: Fetch | RoundPiece) -> None:
        match node:
            case Fetch():
                self._fetch(node)
            case RoundPiece(buffer, indices, count):
                self._line(f"round_piece<{count}>({self._address(buffer, indices)});")

    def _on_warp(self, node: LoadFragment | Multiply) -> None:
        match node:
            case LoadFragment():
                self._gather(node)
            case Multiply():
                self._multiply(node)

    def _on_tiles(self, node: MultiplyTiles | BeginProducts | EndProducts | WaitProducts) -> None:
        match node:
            case MultiplyTiles():
                self._multiply_tiles(node)
            case BeginProducts(acc):
                self._line(f"begin_products{self._results(acc)};")
            case EndProducts():
                self._line("commit_products();")
            case WaitProducts(acc, left):
                self._line(f"wait_products<{left}>();")
                if not left:
                    self._line(f"hold{self._results(acc)};")

    def _barrier(self) -> None:
        """Of all threads; what they have stored, tensor units may read behind it."""
        if self._shared.of_units:
            self._line("publish_stores();")
        self._line("__syncthreads();")

    def _loop(self, node: For | Cooperative | Pipeline) -> None:
        match node:
            case For():
                self._for(node)
            case Cooperative():
                self._cooperative(node)
            case Pipeline():
                self._pipeline(node)

    def _declare(self, buffer: Buffer, elements: int) -> None:
        name = self._expressions.buffer(buffer)
        if buffer.scope is Scope.SHARED:
            self._line(self._shared.declaration(buffer, name, elements))
        else:
            self._line(f"{C_TYPES[buffer.dtype]} {name}[{elements}];")

    def _for(self, loop: For) -> None:
        name = self._expressions.variable(loop.var)
        ends = loop.ends
        tests = [f"{name} < {loop.extent * loop.stride}", *map(self._expressions.predicate, ends)]
        step = f"++{name}" if loop.stride == 1 else f"{name} += {loop.stride}"
        if loop.unroll:
            self._line("#pragma unroll")
        self._line(f"for (index_t {name} = 0; {' && '.join(tests)}; {step}) {{")
        self._depth += 1
        rest = tuple(p for p in loop.clip if p not in ends)
        if rest:
            self._line(f"if (!({self._expressions.all_hold(rest)})) continue;")
        self._nodes(loop.body)
        self._depth -= 1
        self._line("}")

    def _pipeline(self, node: Pipeline) -> None:
        """The first tiles are begun before the loop; ``slot`` is where a tile lies."""
        tiles, depth = points(node.bindings), node.depth
        for buffer in node.buffers:
            self._declare(buffer, depth * tile_elements(buffer))
        running = RunningPlaces.of(node, self._function, self._names, self._expressions)
        self._lines += ["  " * self._depth + line for line in running.lines]
        self._running = running
        self._line(unrolling(node.ahead, node.fetch))
        self._line(f"for (index_t tile = 0; tile < {node.ahead}; ++tile) {{")
        self._depth += 1
        self._line("const index_t slot = tile;")
        self._tile(node, "tile", node.fetch, ahead=None if node.staged else "")
        if not node.staged:
            self._line("commit_copies();")
        self._advance(running)
        self._depth -= 1
        self._line("}")
        self._line(f"index_t now = 0, free = {node.ahead};")
        # one number ends the loop and the copies: tiles that are still to be begun
        self._line(f"int left = {tiles - node.ahead};")
        self._line(f"for (index_t tile = 0; left > {-node.ahead}; ++tile, --left) {{")
        self._depth += 1
        if node.staged:
            self._staged(node)
        else:
            self._asynchronous(node)
        self._advance(running)
        self._running = None
        self._line(f"free = {_next('free', depth) if node.lag else 'now'};")
        self._line(f"now = {_next('now', depth)};")
        self._depth -= 1
        self._line("}")

    def _advance(self, running: RunningPlaces) -> None:
        self._lines += ["  " * self._depth + line for line in running.advance()]

    def _asynchronous(self, node: Pipeline) -> None:
        """A trip: wait for a tile, begin a later one, read that tile."""
        self._line(f"wait_copies<{node.ahead - 1}>();")
        if node.arrived:
            self._now(node, node.arrived)
        self._barrier()
        # without a branch where copies can be told not to happen
        straight = all(
            isinstance(each, Fetch) and each.asynchronous
            for part in node.later
            for each in part.body
        )
        self._line("const bool ahead = left > 0;")
        self._line("{" if straight else "if (ahead) {")
        self._depth += 1
        self._line("const index_t slot = free;")
        self._tile(node, f"(tile + {node.ahead})", node.later, ahead="ahead" if straight else "")
        self._depth -= 1
        self._line("}")
        self._line("commit_copies();")
        self._line("const index_t slot = now;")
        self._tile(node, "tile", node.body)

    def _now(self, node: Pipeline, nodes: tuple[DeviceNode, ...]) -> None:
        """What is done with the tile of this trip, in a scope of its own."""
        self._line("{")
        self._depth += 1
        self._line("const index_t slot = now;")
        self._tile(node, "tile", nodes)
        self._depth -= 1
        self._line("}")

    def _staged(self, node: Pipeline) -> None:
        """A trip: ask for the next tile, read this one, put the next one into shared memory."""
        self._line("__syncthreads();")
        self._line("const bool ahead = left > 0;")
        staging = Staging.of(node, self._function.block, self._names)
        self._lines += ["  " * self._depth + line for line in staging.declarations()]
        self._next_tile(node, replace(staging, loads=True))
        self._now(node, node.body)
        self._next_tile(node, staging)

    def _next_tile(self, node: Pipeline, staging: Staging) -> None:
        self._line("if (ahead) {")
        self._depth += 1
        self._line("const index_t slot = free;")
        self._staging = staging
        self._tile(node, "(tile + 1)", node.later)
        self._staging = None
        self._depth -= 1
        self._line("}")

    def _tile(
        self, node: Pipeline, number: str, nodes: tuple[DeviceNode, ...], ahead: str | None = None
    ) -> None:
        """What is done with the tile ``number`` in ``slot``."""
        self._line("{")
        self._depth += 1
        self._decode(node.bindings, number)
        for buffer in node.buffers:
            self._expressions.start(buffer, f"{tile_elements(buffer)} * slot")
        self._ahead = ahead
        self._nodes(nodes)
        self._ahead = None
        self._depth -= 1
        self._line("}")

    def _combine(self, node: Combine) -> None:
        """Cell by cell, in a block of its own."""
        size = int(node.targets[0].size)
        cell = self._names.fresh("cell") if size > 1 else "0"
        if size > 1:
            self._line("#pragma unroll")
            self._line(f"for (int {cell} = 0; {cell} < {size}; ++{cell}) {{")
        else:
            self._line("{")
        text = CombineText(
            node,
            self._function.block,
            tuple(f"{self._expressions.buffer(target)}[{cell}]" for target in node.targets),
            tuple(map(self._expressions.buffer, node.scratch)),
            self._expressions.variable(node.lane),
            lambda places, values: self._combination(node, places, values),
        )
        self._lines += [f"{'  ' * (self._depth + 1)}{line}" for line in text.lines()]
        self._line("}")

    def _combination(
        self, node: Combine, places: Sequence[str], values: Sequence[str]
    ) -> list[str]:
        """The statements of one combination, by themselves."""
        kept, depth = self._lines, self._depth
        self._lines, self._depth = [], 0
        types = [C_TYPES[target.dtype] for target in node.targets]
        results = self._reduced_tuple(node.reducer, types, places, values)
        names = [self._define("result", *pair) for pair in zip(types, results, strict=True)]
        lines = [*self._lines, *(f"{p} = {n};" for p, n in zip(places, names, strict=True))]
        self._lines, self._depth = kept, depth
        return lines


def _next(slot: str, depth: int) -> str:
    """The slot after one of ``depth``; without a comparison where that is a power of two."""
    if depth & depth - 1 == 0:
        return f"{slot} + 1 & {depth - 1}"
    return f"{slot} == {depth - 1} ? 0 : {slot} + 1"
