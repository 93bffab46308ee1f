"""From a loop nest to a CUDA program: the chain of passes, the emitter, the compiler."""

from __future__ import annotations

from functools import partial

from codegen.cuda.compile import compiled
from codegen.cuda.device import DeviceFunction
from codegen.cuda.emit import emit_function
from codegen.cuda.kernel import CudaKernel, CudaSource, Launch
from codegen.cuda.passes.apart_first import apart_first
from codegen.cuda.passes.barriers import insert_barriers
from codegen.cuda.passes.bind_threads import bind_threads
from codegen.cuda.passes.end_tiles import end_tiles
from codegen.cuda.passes.fetch import fetch_pieces
from codegen.cuda.passes.gather_sums import gather_sums
from codegen.cuda.passes.inject_vthread import inject_vthread
from codegen.cuda.passes.keep_rows import keep_rows
from codegen.cuda.passes.later_products import later_products
from codegen.cuda.passes.line_rounds import rounds_along_lines
from codegen.cuda.passes.narrow_guards import narrow_guards
from codegen.cuda.passes.pipeline import pipeline_tiles
from codegen.cuda.passes.relax_guards import relax_guards
from codegen.cuda.passes.round_tiles import round_tiles
from codegen.cuda.passes.short_integers import short_integers
from codegen.cuda.passes.tails_first import tails_first
from codegen.cuda.passes.vectorize import vectorize
from codegen.cuda.passes.warp_products import warp_products
from codegen.cuda.passes.whole_tiles import whole_tiles
from codegen.cuda.passes.write_out import write_out
from codegen.cuda.passes.zero_fill import zero_fill
from codegen.cuda.prelude import prelude_of
from codegen.cuda.shared_memory import shared_bytes
from codegen.errors import CodegenError
from codegen.file_cache import user_cache
from codegen.gpu.emulation.checked import checked_launches
from codegen.gpu.emulation.library import EMULATION, emulated_library
from codegen.kernel import SYMBOL, argument_of
from codegen.passes.simplify import simplify
from sketch.lang.dtypes import size_of
from sketch.nest.loopnest import LoopNest
from sketch.target.gpu_targets import copies_ahead
from sketch.target.target import Target
from sketch.target.units import units_of
from sketch.verify import verify

_NEST_PASSES = (
    gather_sums,
    simplify,
    narrow_guards,
    end_tiles,
    zero_fill,
    relax_guards,
    inject_vthread,
    write_out,
    apart_first,
    short_integers,
)
_GRID_LIMIT = 2**31 - 1


def prepare(nest: LoopNest) -> LoopNest:
    """Verify a nest and run all passes on it; raises LoweringError when it is unsound."""
    verify(nest)
    for run in _NEST_PASSES:
        nest = run(nest)
    return nest


def device_functions(nest: LoopNest, target: Target) -> tuple[DeviceFunction, ...]:
    """The kernels of a nest, in launch order."""
    pipeline = partial(pipeline_tiles, asynchronous=copies_ahead(target))
    products = partial(warp_products, units=units_of(target))
    functions = bind_threads(prepare(nest))
    passes = (later_products, vectorize, keep_rows, fetch_pieces, rounds_along_lines)
    for run in (
        whole_tiles,
        tails_first,
        products,
        *passes,
        pipeline,
        round_tiles,
        insert_barriers,
    ):
        functions = tuple(map(run, functions))
    return functions


def emit(nest: LoopNest, target: Target, symbol: str = SYMBOL) -> CudaSource:
    """The CUDA C++ of an int nest; kernels are called ``<symbol>_0``, ``<symbol>_1``, ...

    Raises:
        CodegenError: the nest has no CUDA code, or exceeds a limit of the target.
    """
    texts: list[str] = []
    launches: list[Launch] = []
    for number, function in enumerate(device_functions(nest, target)):
        shared = shared_bytes(function)
        _check_limits(function, shared, target, f"{symbol}_{number}")
        dynamic = shared if shared > target.shared_memory_bytes else 0
        text, launch = emit_function(function, f"{symbol}_{number}", dynamic)
        texts.append(text)
        launches.append(launch)
    body = "\n".join(texts)
    prelude = prelude_of(body)
    return CudaSource(
        name=nest.name,
        text=f"{prelude}\n{body}" if prelude else body,
        launches=tuple(launches),
        arguments=tuple(argument_of(buffer) for buffer in nest.arguments),
        workspaces=tuple(
            (buffer.name, int(buffer.size) * size_of(buffer.dtype)) for buffer in nest.workspaces
        ),
    )


def _check_limits(function: DeviceFunction, shared: int, target: Target, where: str) -> None:
    limits = (
        ("threads in a block", function.block, target.threads_per_block),
        ("bytes of shared memory", shared, target.most_shared_bytes),
        ("blocks", function.grid, _GRID_LIMIT),
    )
    for what, used, limit in limits:
        if used > limit:
            raise CodegenError(
                f"{used} {what}, the limit is {limit}", where, "take rows that are feasible"
            )


def build(nest: LoopNest, target: Target, symbol: str = SYMBOL) -> CudaKernel:
    """Compile an int nest for the GPU architecture ``target.arch``; needs no GPU.

    For an emulated target the text is compiled for the CPU, ahead of the device that will load it;
    NVRTC is not asked.

    Raises:
        CodegenError: the nest has no CUDA code, or the compiler refuses it.
        TargetError: the compiler is not installed.
    """
    source = emit(nest, target, symbol)
    if target.card.emulated:
        compile_here = checked_launches if target.card.checked else emulated_library
        compile_here(source, user_cache(EMULATION))
        return CudaKernel(source, target, b"", ())
    cubin, resources = compiled(source, target.arch)
    return CudaKernel(source, target, cubin, resources)
