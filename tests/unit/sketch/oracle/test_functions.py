import numpy as np
import pytest

import autosched as asd
from sketch.dag.dag import ComputeDAG
from sketch.errors import ExpressionError
from sketch.oracle.interpret import interpret

X = np.linspace(0.1, 2.0, 7)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("exp", np.exp(X)), ("log", np.log(X)), ("sqrt", np.sqrt(X)), ("rsqrt", X**-0.5),
        ("tanh", np.tanh(X)), ("sigmoid", 1 / (1 + np.exp(-X))), ("floor", np.floor(X)),
        ("ceil", np.ceil(X)), ("abs", X),
    ],
)  # fmt: skip
def test_functions_compute_what_their_names_say(name: str, expected: np.ndarray) -> None:
    data = asd.placeholder((7,), name="x")
    dag = ComputeDAG([asd.compute((7,), lambda i: getattr(asd, name)(data[i]), name="y")])
    result = interpret(dag, {"x": X.astype(np.float32)})["y"]
    np.testing.assert_allclose(result, expected, rtol=1e-6)


def test_elementary_functions_need_floats() -> None:
    data = asd.placeholder((7,), dtype="int32", name="x")
    with pytest.raises(ExpressionError, match="needs a float"):
        asd.compute((7,), lambda i: asd.erf(data[i]))
