"""The check that a schedule leaves LLVM no more straight-line code than it makes in seconds."""

from __future__ import annotations

from codegen.errors import CodegenError
from sketch.lang.expr import Expr
from sketch.lang.rewrite import children
from sketch.nest.lanes import store_bytes
from sketch.nest.loopnest import Loop, LoopKind, LoopNest, Store
from sketch.nest.walk import stores
from sketch.target.target import Target


def check_straight_line(nest: LoopNest, target: Target) -> None:
    """Raise CodegenError for what LLVM would work on for minutes.

    Rules of users may ask for it; the search never does, ``Target.instruction_budget`` is far
    below.  What a program computes without any copies is never refused.
    """
    for root in nest.roots:
        total = 0
        for store, loops in stores((root,)):
            _check_vectors(store, loops, nest.name, target)
            copies = _copies(loops)
            total += copies * _operations(store) if copies > 1 else 0
            if total > target.code.straight_instructions:
                raise CodegenError(
                    f"unrolled loops make {total} instructions, "
                    f"at most {target.code.straight_instructions} become code",
                    f"stage {store.stage_name} of {nest.name}",
                    "unroll loops of fewer trips, or split them first",
                )


def _copies(loops: tuple[Loop, ...]) -> int:
    count = 1
    for loop in loops:
        count *= int(loop.extent) if loop.kind is LoopKind.UNROLLED else 1
    return count


def _operations(store: Store) -> int:
    """Different operators of a statement, and its stores."""
    pending: list[Expr] = list(store.values)
    seen: set[int] = set()
    count = len(store.targets)
    while pending:
        node = pending.pop()
        if id(node) not in seen:
            seen.add(id(node))
            operands = children(node)
            pending.extend(operands)
            count += bool(operands)
    return count


def _check_vectors(store: Store, loops: tuple[Loop, ...], name: str, target: Target) -> None:
    most = target.code.vector_operation_bytes
    for loop in loops:
        size = int(loop.extent) * store_bytes(store)
        if loop.kind is LoopKind.VECTORIZED and size > most:
            raise CodegenError(
                f"a vector operation of {int(loop.extent)} lanes takes {size} bytes, "
                f"at most {most} become code",
                f"stage {store.stage_name} of {name}",
                f"split the vectorised loop; {target.vector_bytes} bytes are one instruction",
            )
