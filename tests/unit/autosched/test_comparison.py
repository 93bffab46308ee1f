import numpy as np
import pytest

import autosched as asd
from autosched.report.comparison import Comparison, compare
from autosched.runtime.benchmark import Benchmark


def test_the_table_relates_everything_to_the_first_row() -> None:
    rows = (Benchmark("untuned", (4e-3, 4e-3), 2), Benchmark("tuned", (1e-3,), 2))
    text = str(Comparison(rows, None))
    assert "4.00x" in text and "relative difference" not in text
    data = Comparison(rows, 2e-7).to_json()
    assert data["relative_error"] == 2e-7 and len(data["rows"]) == 2
    assert "2.0e-07" in str(Comparison(rows, 2e-7))


def test_a_network_against_onnxruntime() -> None:
    pytest.importorskip("onnxruntime")
    network = asd.zoo.build("mlp")
    module = asd.compile(network, threads=1)
    result = compare(network, module, module, repeats=2)
    assert [row.name for row in result.rows] == ["untuned", "tuned", "onnxruntime"]
    assert result.error is not None and result.error < 1e-5
    assert all(np.isfinite(row.seconds).all() for row in result.rows)
