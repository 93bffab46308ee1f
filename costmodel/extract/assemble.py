"""From a nest to the features of all its statements."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import numpy as np

from costmodel.extract.analysis import Analysis, analyse
from costmodel.extract.draft_terms import DraftTerms, draft_terms
from costmodel.extract.gpu_columns import gpu_columns
from costmodel.extract.gpu_kernel import KernelShape, kernel_shapes
from costmodel.extract.gpu_terms import gpu_draft_terms
from costmodel.extract.locality import (
    buffer_columns,
    cache_columns,
    cache_traffic,
    intensity_columns,
)
from costmodel.extract.quantity import Quantity, Rows
from costmodel.extract.registers import accumulator_tile
from costmodel.extract.statement import Statement, statements_of
from costmodel.extract.structure import (
    allocation_columns,
    annotation_columns,
    computation_columns,
    hardware_columns,
    packing_columns,
    parallel_columns,
    register_columns,
    structure_columns,
    validity_columns,
)
from costmodel.extract.unit_columns import unit_columns
from costmodel.extract.validity import validity
from costmodel.feature_table import FEATURE_COUNT, FEATURE_INDEX
from costmodel.features import Features
from sketch.lang.tensor import Compute
from sketch.nest.loopnest import LoopNest
from sketch.target.of_kind import of_kind
from sketch.target.target import Target, TargetKind

if TYPE_CHECKING:
    from sketch.dag.dag import ComputeDAG

Columns = dict[str, Quantity]


@dataclass(frozen=True, slots=True)
class _Launches:
    """How a kind of machine runs nests; ``shapes``: to the kernel of every stage."""

    kind: TargetKind
    shapes: Callable[[LoopNest, Target], Mapping[Compute | None, KernelShape]]


_LAUNCHES: Final = (_Launches("cpu", lambda nest, target: {}), _Launches("cuda", kernel_shapes))


def extract(nest: LoopNest, count: int, dag: ComputeDAG, target: Target) -> Features:
    """The features of a population of one sketch.

    Args:
        nest: lowered from arrays ``[count]``, or from ints (then ``count`` is 1).
        count: programs.
        dag: what the nest computes; tells how large packed constants were.
        target: the machine.

    Returns:
        One row per statement and program, in the order of the nest.
    """
    columns = feature_columns(nest, np.arange(count), dag, target)
    return write_features(columns, count)


def draft_columns(nest: LoopNest, programs: Rows, target: Target) -> list[Quantity]:
    """The draft model's seconds of every statement; ``programs``: 0 .. P-1."""
    totals = []
    kernels = kernels_of(nest, target)
    for statement in statements_of(nest):
        analysis = analyse(statement, programs, target)
        if statement.stage in kernels:
            totals.append(gpu_draft_terms(analysis, kernels[statement.stage]).total)
            continue
        checks = validity(analysis.main)
        traffic = cache_traffic(analysis, checks.tail_executed)
        totals.append(draft_terms(analysis, accumulator_tile(analysis), checks, traffic).total)
    return totals


def kernels_of(nest: LoopNest, target: Target) -> Mapping[Compute | None, KernelShape]:
    """The kernel of every stage, where the target runs kernels of blocks of threads; else none."""
    return of_kind(target, _LAUNCHES).shapes(nest, target)


def feature_columns(
    nest: LoopNest, programs: Rows, dag: ComputeDAG, target: Target
) -> Mapping[Statement, Columns]:
    """The features of every statement.

    Args:
        nest: of a population of P programs.
        programs: 0 .. P-1.
        dag: what the nest computes.
        target: the machine.
    """
    statements = statements_of(nest)
    shared = shared_buffers(statements)
    inputs = zip(nest.arguments, dag.inputs, strict=False)  # results come after them
    originals = {id(buffer): math.prod(tensor.shape) for buffer, tensor in inputs}
    analyses = [analyse(statement, programs, target) for statement in statements]
    program = program_columns(analyses, dag.flops, len(nest.roots))
    kernels = kernels_of(nest, target)
    return {
        statement: {
            **program,
            **statement_columns(analysis, shared, originals, kernels.get(statement.stage)),
        }
        for statement, analysis in zip(statements, analyses, strict=True)
    }


def write_features(columns: Mapping[Statement, Columns], count: int) -> Features:
    """Columns of ``count`` programs as features; those without a column are 0."""
    values = np.zeros((len(columns), FEATURE_COUNT, count), dtype=np.float32)
    for row, statement in zip(values, columns.values(), strict=True):
        for name, value in statement.items():
            row[FEATURE_INDEX[name]] = value
    return Features(values, tuple(statement.name for statement in columns))


def program_columns(analyses: Sequence[Analysis], flops: float, roots: int) -> Columns:
    """What all statements of a program share; ``flops``: what its DAG asks for."""
    total: Quantity = 0.0
    for analysis in analyses:
        total = total + analysis.flops
    return {
        "statements": float(len(analyses)),
        "root_share": 1.0 / roots,
        "overcompute": total / flops if flops else 1.0,
    }


def statement_columns(
    analysis: Analysis,
    shared: frozenset[int],
    originals: Mapping[int, int],
    kernel: KernelShape | None = None,
) -> Columns:
    """The features of one statement.

    Args:
        analysis: of the statement.
        shared: ids of the buffers that other statements touch too.
        originals: elements of each placeholder before packing, by the id of its buffer.
        kernel: of a GPU, in which the statement is; None on CPUs.
    """
    tile, checks = accumulator_tile(analysis), validity(analysis.main)
    traffic = cache_traffic(analysis, checks.tail_executed)
    if kernel is None:
        terms = draft_terms(analysis, tile, checks, traffic)
    else:
        terms = gpu_draft_terms(analysis, kernel)
    return {
        **computation_columns(analysis),
        **annotation_columns(analysis),
        **structure_columns(analysis),
        **buffer_columns(analysis, traffic, shared),
        **intensity_columns(analysis),
        **cache_columns(analysis, traffic),
        **allocation_columns(analysis),
        **register_columns(analysis, tile),
        **parallel_columns(analysis, checks),
        **validity_columns(analysis, tile, checks),
        **packing_columns(analysis, originals),
        **hardware_columns(analysis.target),
        **({} if kernel is None else gpu_columns(analysis, kernel)),
        **unit_columns(analysis, tile, kernel),
        **_draft_columns(terms),
    }


def _draft_columns(terms: DraftTerms) -> Columns:
    return {
        "draft_compute_seconds": terms.compute,
        "draft_memory_seconds": terms.memory,
        "draft_overhead_seconds": terms.overhead,
        "draft_seconds": terms.total,
    }


def shared_buffers(statements: tuple[Statement, ...]) -> frozenset[int]:
    """Buffers that more than one statement touches."""
    users: dict[int, set[Statement]] = {}
    for statement in statements:
        for site in statement.sites:
            for buffer in site.buffers():
                users.setdefault(id(buffer), set()).add(statement)
    return frozenset(buffer for buffer, found in users.items() if len(found) > 1)
