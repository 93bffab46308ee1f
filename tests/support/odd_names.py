"""Names that a program may legally have and that generated names, or their parts, could equal."""

from __future__ import annotations

from hypothesis import strategies as st

from autosched.records.old_names import Names, with_names
from sketch.dag.dag import ComputeDAG

_STEMS = ("C", "s", "x", "k", "i", "A", "d0", "", "é→日", "a b", 'q"\n\\', "%2E", "%")
_ENDINGS = (
    "", ".local", ".rf", ".cache", ".C.cache", "_part", "_chunk", ".0", ".1", ".i", ".i@1", "@1",
    "@unroll", "@prefetch", "#2", ".local#2", ".local.local", ".init", "%2Ei", ".", "@",
)  # fmt: skip
STAGES = [stem + ending for stem in _STEMS for ending in _ENDINGS]


def names_of(dag: ComputeDAG) -> Names:
    """The names of ``dag``: placeholders, and each stage with its axes."""
    stages = tuple(
        (op.name, tuple(axis.name for axis in (*op.axes, *op.reduce_axes))) for op in dag.stages
    )
    return Names(tuple(tensor.name for tensor in dag.inputs), stages)


@st.composite
def renamed(draw: st.DrawFn, dag: ComputeDAG) -> ComputeDAG:
    """``dag`` under odd names: those of axes repeat, from stage to stage and within one."""
    plain = names_of(dag)
    count = len(plain.inputs) + len(plain.stages)
    several = any(len(op.output_dtypes) > 1 for op in dag.stages)
    taken = draw(st.lists(st.sampled_from(STAGES), min_size=count, max_size=count, unique=True))
    if several:  # outputs of one stage are called <stage>.v0, <stage>.v1
        taken = [f"{name}_" for name in taken]
    inputs, stages = taken[: len(plain.inputs)], taken[len(plain.inputs) :]
    axes = []
    for name, (_, labels) in zip(stages, plain.stages, strict=True):
        near = [f"{name}.i", f"{name}_part", *STAGES[:80]]
        size = len(labels)
        drawn = draw(st.lists(st.sampled_from(near), min_size=size, max_size=size))
        axes.append(tuple(drawn))
    return with_names(dag, Names(tuple(inputs), tuple(zip(stages, axes, strict=True))))
