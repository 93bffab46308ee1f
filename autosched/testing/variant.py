"""The proof that a variant of a program computes what the program computes."""

from __future__ import annotations

from sketch.dag.dag import ComputeDAG


def check_variant(dag: ComputeDAG, variant: ComputeDAG) -> None:
    """Prove that ``variant`` is the same function of its inputs as ``dag``, but for rounding.

    Every element of an input is a symbol (sympy's), so equality holds for all values.  Make both
    programs with small extents: a few channels, one or two tiles.

        >>> import autosched as asd
        >>> from autosched.testing import check_variant
        >>> x = asd.placeholder((4,), name="x")
        >>> product = asd.compute((4,), lambda i: (x[i] + 1.0) * (x[i] - 1.0), name="y")
        >>> difference = asd.compute((4,), lambda i: x[i] * x[i] - 1.0, name="y")
        >>> check_variant(asd.ComputeDAG([product]), asd.ComputeDAG([difference]))

    Args:
        dag: the program as it is written.
        variant: another one, of the same inputs and outputs, as ``asd.Task`` takes it.

    Raises:
        AssertionError: an element of an output differs; names the first one, and by what.
        ExpressionError: a program is not polynomial (it has a maximum, a division, an integer
            input ...), is too large, or has other inputs or outputs.
    """
    from sketch.verify.symbolic import first_difference

    found = first_difference(dag, variant)
    assert found is None, f"{found}"
