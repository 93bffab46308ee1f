"""From a loop nest to machine code: the chain of passes, then the emitter."""

from __future__ import annotations

from codegen.kernel import SYMBOL, Kernel, argument_of
from codegen.llvm.machine import emit_object, triple_of
from codegen.llvm.module import ModuleText, emit_module
from codegen.overwritable import overwritable
from codegen.passes.claim_outputs import claim_outputs
from codegen.passes.clip import clip
from codegen.passes.fetch_rows import fetch_rows
from codegen.passes.fuse import fuse
from codegen.passes.in_place import in_place
from codegen.passes.join_branches import join_branches
from codegen.passes.joined_rows import joined_rows
from codegen.passes.lane_trees import lane_trees
from codegen.passes.legalize import legalize
from codegen.passes.means import means
from codegen.passes.overwrite import overwrite
from codegen.passes.partial_sums import partial_sums
from codegen.passes.promote import promote
from codegen.passes.roll_copies import roll_copies
from codegen.passes.share import share
from codegen.passes.simplify import simplify
from codegen.passes.skip import skip
from codegen.passes.specialize import specialize
from codegen.passes.start_from import start_from
from codegen.passes.tensorize import tensorize
from codegen.passes.tile_blocks import has_unit_loops
from codegen.passes.tile_operands import tile_operands
from codegen.passes.tile_registers import tile_registers
from codegen.passes.turned_reads import turned_reads
from codegen.passes.turned_sums import turned_sums
from codegen.straight_line import check_straight_line
from sketch.nest.loopnest import LoopNest
from sketch.target.target import Target
from sketch.verify import verify


def prepare(nest: LoopNest, target: Target) -> LoopNest:
    """Verify a nest and run all passes on it: nest to nest.

    Raises:
        LoweringError: the nest is unsound.
        CodegenError: the nest has no machine code on this target, or far too much of it.
    """
    nest = share(nest)
    verify(nest)
    nest = start_from(nest)
    nest = legalize(means(simplify(overwrite(in_place(nest)))), target)
    on_units = has_unit_loops(nest)
    if on_units:
        nest = tensorize(tile_registers(nest, target), target)
    check_straight_line(nest, target)
    nest = turned_reads(turned_sums(lane_trees(nest, target)), target)
    nest = promote(partial_sums(nest, target), target)
    nest = clip(nest if on_units else skip(roll_copies(nest, target)))
    nest = fuse(join_branches(simplify(specialize(nest, target))), target)
    nest = fetch_rows(nest, target)
    if on_units:
        return tile_operands(joined_rows(nest, target), target)
    return claim_outputs(nest, target)


def emit(nest: LoopNest, target: Target, symbol: str) -> ModuleText:
    """The LLVM IR of a nest."""
    return emit_module(prepare(nest, target), target, symbol, triple_of(target))


def build(nest: LoopNest, target: Target, symbol: str = SYMBOL) -> Kernel:
    """Compile an int nest for a CPU.

    No name of the program shows in the code: programs that differ in names alone share theirs.

    Raises:
        LoweringError: the nest is unsound.
        CodegenError: the nest has no machine code on this target.
        TargetError: LLVM does not know the target.
    """
    prepared = prepare(nest, target)
    module = emit_module(prepared, target, symbol, triple_of(target))
    return Kernel(
        name=nest.name,
        symbol=symbol,
        object_code=emit_object(module.text, target),
        arguments=tuple(argument_of(buffer) for buffer in nest.arguments),
        workspace_bytes=module.workspace_bytes,
        target=target,
        instructions=module.instructions,
        overwrites=overwritable(nest, prepared),
    )
