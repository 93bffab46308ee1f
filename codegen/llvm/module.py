"""One LLVM module for a nest: an entry point and one function per root."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from codegen.kernel import BUFFER_ALIGNMENT
from codegen.llvm.arithmetic import Arithmetic
from codegen.llvm.evaluator import ExpressionEmitter
from codegen.llvm.features import features_of
from codegen.llvm.flow import Flow
from codegen.llvm.loops import Loops
from codegen.llvm.memory import Memory
from codegen.llvm.parallel import chunk_count, emit_parallel, parallel_chain
from codegen.llvm.permission import PERMISSION_SYMBOL, PERMISSION_TEXT
from codegen.llvm.region import REGION_SYMBOL
from codegen.llvm.scope import LoopScope
from codegen.llvm.statements import Statements
from codegen.llvm.tile_layout import tile_layouts, uses_tiles
from codegen.llvm.tile_statements import TileStatements
from codegen.llvm.unit_calls import has_float_units
from codegen.llvm.writer import Lines, Writer
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import Buffer, LoopNest, Node
from sketch.nest.walk import accesses, stores
from sketch.target.target import Target

# Bytes to which a caller aligns the stack on x86-64 and on AArch64.
_STACK_ALIGNMENT: Final = 16


@dataclass(frozen=True, slots=True)
class ModuleText:
    """IR of a kernel and what its caller has to provide."""

    text: str
    workspace_bytes: int
    instructions: int


def buffer_bytes(buffer: Buffer) -> int:
    """Bytes of a buffer, rounded up to the alignment of buffers."""
    size = int(buffer.size) * size_of(buffer.dtype)
    return -(-size // BUFFER_ALIGNMENT) * BUFFER_ALIGNMENT


def _attributes(target: Target) -> str:
    """Of a function: as wide vectors as the target says, whatever LLVM thinks of its clock; and
    registers that are spilled do not lie across two lines of the cache.
    """
    wide = f'nounwind "prefer-vector-width"="{8 * target.vector_bytes}"'
    return wide if target.vector_bytes <= _STACK_ALIGNMENT else f'{wide} "stackrealign"'


def emit_module(nest: LoopNest, target: Target, symbol: str, triple: str) -> ModuleText:
    """Write the IR of a nest.

    Args:
        nest: what the passes have prepared.
        target: the machine.
        symbol: name of the function.
        triple: architecture and system, for LLVM.
    """
    writer = Writer()
    offsets: dict[Buffer, int] = {}
    shared = 0
    for buffer in nest.workspaces:
        offsets[buffer] = shared
        shared += buffer_bytes(buffer)
    calls: list[str] = []
    private = zeros = 0
    for number, root in enumerate(nest.roots):
        emitter = _RootEmitter(writer, nest, target, root, offsets, shared)
        name = f"{symbol}.root{number}"
        private = max(private, emitter.emit(root, name))
        zeros = max(zeros, emitter.memory.zeros_bytes)
        calls.append(_call(writer, root, name, target.threads))
    if zeros:
        kind = f"[{max(zeros, BUFFER_ALIGNMENT)} x i8]"
        writer.define(
            "zeros", f"internal constant {kind} zeroinitializer, align {BUFFER_ALIGNMENT}"
        )
    if uses_tiles(nest):
        writer.add_function(PERMISSION_TEXT)
        calls.insert(0, f"  call void @{PERMISSION_SYMBOL}()")
    writer.lines = [*calls, "  ret void"]
    writer.finish_function(f"void @{symbol}(ptr %args, ptr %team)", _attributes(target))
    return ModuleText(writer.text(triple), shared + private * target.threads, writer.instructions)


def _call(writer: Writer, root: Node, name: str, threads: int) -> str:
    chunks = chunk_count(parallel_chain(root)[0], threads)
    if chunks == 1:
        return f"  call void @{name}(ptr %args)"
    writer.declare(REGION_SYMBOL, "void {}(ptr, ptr, ptr, i64, i64)")
    return (
        f"  call void @{REGION_SYMBOL}(ptr %team, ptr @{name}, ptr %args, "
        f"i64 {chunks}, i64 {threads})"
    )


class _RootEmitter:
    """Emits the function of one root nest."""

    def __init__(
        self,
        writer: Writer,
        nest: LoopNest,
        target: Target,
        root: Node,
        offsets: dict[Buffer, int],
        shared: int,
    ) -> None:
        self.writer, self.nest, self.target = writer, nest, target
        self.offsets, self.shared = offsets, shared
        self.scope = LoopScope(writer)
        features = features_of(target, has_float_units(nest))
        self.memory = Memory(writer, self.scope, features)
        arithmetic = Arithmetic(writer, features)
        evaluator = ExpressionEmitter(writer, self.scope, self.memory, arithmetic)
        flow = Flow(evaluator)
        statements = Statements(flow, evaluator)
        self.tiles = TileStatements(evaluator, tile_layouts((root,)))
        self.loops = Loops(flow, evaluator, statements, self.tiles, 2 * target.registers)

    def emit(self, root: Node, name: str) -> int:
        """Write the function; returns the workspace bytes that each thread needs."""
        writer = self.writer
        writer.lines, writer.block = ["entry:"], "entry"
        head = writer.part()
        self.scope.push()
        used = {buffer for store, _ in stores((root,)) for buffer, _ in accesses(store)}
        workspace = f"%args.{len(self.nest.arguments)}"
        self._load_arguments(used, workspace)
        self.tiles.enter()
        chain, body = parallel_chain(root)
        chunks = chunk_count(chain, self.target.threads)
        if chunks > 1:
            emit_parallel(self.loops, chain, body, chunks)
        else:
            self.loops.emit((root,))
        self.tiles.leave()
        writer.lines.append("  ret void")
        private = self._place_private(head, workspace, chunks > 1)
        more = ", i64 %chunk, i64 %thread" if chunks > 1 else ""
        writer.finish_function(f"internal void @{name}(ptr %args{more})", _attributes(self.target))
        return private

    def _load_arguments(self, used: set[Buffer], workspace: str) -> None:
        lines = self.writer.lines
        for position, buffer in enumerate(self.nest.arguments):
            if buffer not in used:
                continue
            lines.append(f"  %slot.{position} = getelementptr ptr, ptr %args, i64 {position}")
            lines.append(f"  %args.{position} = load ptr, ptr %slot.{position}, align 8")
            self.memory.bases[buffer] = f"%args.{position}"
        lines.append(f"  %slot.w = getelementptr ptr, ptr %args, i64 {len(self.nest.arguments)}")
        lines.append(f"  {workspace} = load ptr, ptr %slot.w, align 8")
        for position, buffer in enumerate(self.nest.workspaces):
            if buffer in used:
                lines.append(
                    f"  %work.{position} = getelementptr i8, ptr {workspace}, "
                    f"i64 {self.offsets[buffer]}"
                )
                self.memory.bases[buffer] = f"%work.{position}"

    def _place_private(self, head: Lines, workspace: str, threaded: bool) -> int:
        """Define the pointers of private buffers at the function's entry."""
        large: list[tuple[str, int]] = []
        total = 0
        for buffer in self.loops.private:
            name, size = self.loops.private_bases[buffer], buffer_bytes(buffer)
            if size <= self.target.code.private_stack_bytes:
                head.append(f"  {name} = alloca [{size} x i8], align {BUFFER_ALIGNMENT}")
            else:
                large.append((name, total))
                total += size
        if not large:
            return 0
        position = len(self.nest.arguments)
        head.append(f"  %slot.p = getelementptr ptr, ptr %args, i64 {position}")
        head.append("  %private.base = load ptr, ptr %slot.p, align 8")
        thread = "0"
        if threaded:
            head.append(f"  %private.skip = mul i64 %thread, {total}")
            thread = "%private.skip"
        head.append(f"  %private.mine = getelementptr i8, ptr %private.base, i64 {thread}")
        for name, offset in large:
            head.append(
                f"  {name} = getelementptr i8, ptr %private.mine, i64 {self.shared + offset}"
            )
        return total
