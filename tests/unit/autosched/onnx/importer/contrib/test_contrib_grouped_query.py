"""GroupQueryAttention, against onnxruntime: rows and caches as far as sequences go."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest

import autosched as asd
from autosched.graph.extract import extract

pytest.importorskip("onnx")

from tests.support.contrib_models import (
    contrib_model,
    floats,
    inputs_of,
    results_of,
)
from tests.support.onnx_sessions import reference_session

HEADS, SHARED, SIZE = 6, 2, 16
OPERATOR = "GroupQueryAttention"


@dataclass(frozen=True)
class Case:
    """A call: its new rows, the length of all sequences, and that of the caches before."""

    rows: int
    total: int
    stored: int = 0
    lengths: tuple[int, ...] = ()  # of each sequence; empty: one of ``total``
    packed: bool = False
    rotary: bool = False
    attributes: Mapping[str, Any] = field(default_factory=dict)
    bias: tuple[int, int] | None = None
    sink: bool = False
    known_lengths: bool = False
    positions: int | None = None  # of the first row; later ones are anything

    @property
    def ends(self) -> tuple[int, ...]:
        return self.lengths or (self.total,)

    def given_positions(self) -> Any:
        if self.positions is None:
            return None
        rows = self.positions + np.arange(len(self.ends) * self.rows) * 3 % 7
        return rows.reshape(len(self.ends), self.rows)

    def inputs(self) -> list[Any]:
        batch = len(self.ends)

        def cache(seed: int) -> Any:
            return floats(batch, SHARED, self.stored, SIZE, seed=seed) if self.stored else None

        def new(heads: int, seed: int) -> Any:
            return floats(batch, self.rows, heads * SIZE, seed=seed)

        each = [new(HEADS, 0), new(SHARED, 1), new(SHARED, 2)]
        if self.packed:
            each = [np.concatenate(each, axis=2), None, None]
        tables = [floats(40, SIZE // 2, seed=n) if self.rotary else None for n in (5, 6)]
        return [
            *each, cache(3), cache(4), np.array(self.ends, np.int32) - 1,
            np.asarray(self.total, np.int32), *tables, self.given_positions(),
            None if self.bias is None else floats(*self.bias, self.rows, self.total),
            floats(HEADS) if self.sink else None,
        ]  # fmt: skip

    def model(self) -> Any:
        constants = [6, *([5] if self.known_lengths else []), *([7, 8] if self.rotary else [])]
        attributes = {
            "num_heads": HEADS, "kv_num_heads": SHARED, "do_rotary": int(self.rotary),
            **self.attributes,
        }  # fmt: skip
        return contrib_model(OPERATOR, self.inputs(), attributes, constants, ["float32"] * 3)


def of_one_sequence(case: Case, number: int) -> tuple[Case, list[Any]]:
    """The call for one of the sequences, and its inputs: onnxruntime takes no others at times."""
    inputs = [
        array[number : number + 1] if n in (0, 1, 2, 3, 4, 5) and array is not None else array
        for n, array in enumerate(case.inputs())
    ]
    return replace(case, lengths=(case.ends[number],)), inputs


def check(case: Case, alone: bool = False) -> None:
    """``alone``: onnxruntime computes each sequence for itself."""
    model = case.model()
    found = results_of(model, inputs_of(model, case.inputs()))
    groups = range(len(case.ends)) if alone else (None,)
    for group in groups:
        own, inputs = (case, case.inputs()) if group is None else of_one_sequence(case, group)
        reference = own.model()
        session = reference_session(reference.SerializeToString())
        expected = session.run(None, inputs_of(reference, inputs))
        for values in found:
            chosen = slice(None) if group is None else slice(group, group + 1)
            compare([values[f"y{n}"][chosen] for n in range(3)], expected, own)


def compare(found: list[Any], expected: list[Any], case: Case) -> None:
    """What belongs to a sequence; the rest of a cache or of padded rows is anything."""
    for n, (values, wanted) in enumerate(zip(found, expected, strict=True)):
        assert values.shape == wanted.shape
        for number, end in enumerate(case.ends):
            rows = end if case.rows == case.total else case.rows
            part = np.s_[number, :, :end] if n else np.s_[number, :rows]
            np.testing.assert_allclose(values[part], wanted[part], rtol=1e-5, atol=1e-5)


CALLS: Mapping[str, Case] = {
    "prompt": Case(5, 5),
    "prompts": Case(5, 5, lengths=(5, 3)),
    "prompt before an empty cache": Case(5, 5, 9, lengths=(5, 3)),
    "token": Case(1, 8, 7),
    "tokens": Case(1, 8, 7, lengths=(8, 5)),
    "token in a cache": Case(1, 8, 11),
    "tokens in a cache": Case(1, 8, 11, lengths=(8, 5)),
    "token at a known place": Case(1, 8, 11, lengths=(8, 8), known_lengths=True),
    "token in a cache that the mask fills": Case(1, 11, 11, lengths=(6,)),
    "more rows": Case(3, 10, 7),
    "more rows in a cache": Case(3, 10, 12),
}


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("rotary", [False, True])
def test_calls(call: str, packed: bool, rotary: bool) -> None:
    check(replace(CALLS[call], packed=packed, rotary=rotary))


@pytest.mark.parametrize("stored", [7, 12])
@pytest.mark.parametrize("rotary", [False, True])
def test_more_rows_of_several_sequences(stored: int, rotary: bool) -> None:
    check(Case(3, 10, stored, lengths=(10, 7), rotary=rotary), alone=True)


@pytest.mark.parametrize("window", [1, 2, 4, 20])
@pytest.mark.parametrize("call", ["prompt", "token", "tokens in a cache", "more rows"])
def test_rows_see_a_window(window: int, call: str) -> None:
    check(replace(CALLS[call], attributes={"local_window_size": window}))


@pytest.mark.parametrize("call", ["prompt", "tokens in a cache"])
@pytest.mark.parametrize(
    "attributes",
    [
        {"softcap": 0.8},
        {"scale": 0.7},
        {"smooth_softmax": 1},
        {"softcap": 1.5, "local_window_size": 3, "smooth_softmax": 1},
    ],
)
def test_scores(call: str, attributes: Mapping[str, Any]) -> None:
    check(replace(CALLS[call], attributes=attributes))


@pytest.mark.parametrize("call", ["prompt", "tokens in a cache"])
def test_a_score_of_each_head_is_in_the_sum_alone(call: str) -> None:
    check(replace(CALLS[call], sink=True))


@pytest.mark.parametrize("call", ["prompts", "token", "tokens", "tokens in a cache"])
@pytest.mark.parametrize("softcap", [0.0, 0.8])
@pytest.mark.parametrize("heads", [1, HEADS])
def test_a_bias_of_scores(call: str, softcap: float, heads: int) -> None:
    check(replace(CALLS[call], bias=(1, heads), attributes={"softcap": softcap}))


@pytest.mark.parametrize("call", ["prompt", "token"])
def test_neighbours_are_rotated(call: str) -> None:
    check(replace(CALLS[call], rotary=True, attributes={"rotary_interleaved": 1}))


@pytest.mark.parametrize("call", CALLS)
def test_positions_that_are_given(call: str) -> None:
    check(replace(CALLS[call], rotary=True, positions=2))


def test_shared_heads_are_not_repeated() -> None:
    """Products read keys and values where they are stored."""
    graph = extract(asd.from_onnx(CALLS["token"].model())).graph
    assert "expand" not in {node.op.kind for node in graph.nodes}
    assert sum(node.op.kind == "einsum" for node in graph.nodes) == 2


@pytest.mark.parametrize(
    ("attributes", "message"),
    [
        ({"causal": 0}, "attribute causal = 0"),
        ({"kv_cache_bit_width": 8}, "attribute kv_cache_bit_width = 8"),
        ({"k_quant_type": "PER_TENSOR"}, "attribute k_quant_type = 'PER_TENSOR'"),
        ({"sliding_window_cache": 1}, "attribute sliding_window_cache = 1"),
        ({"qk_output": 1}, "attribute qk_output = 1"),
        ({"do_rotary": 1}, "do_rotary without cos_cache and sin_cache"),
        ({"kv_num_heads": 4}, "num_heads 6 with kv_num_heads 4"),
    ],
)
def test_refused(attributes: Mapping[str, Any], message: str) -> None:
    model = replace(CALLS["prompt"], attributes=attributes).model()
    with pytest.raises(asd.AutoschedError, match=f"com.microsoft.{OPERATOR}.*{message}"):
        asd.from_onnx(model)


@pytest.mark.parametrize(
    ("case", "constants", "message"),
    [
        (Case(1, 8, 7), [], "is not constant"),
        (Case(1, 8, 5), [6], "5 positions of past_key where 7 are past"),
        (Case(5, 3), [6], "5 new positions with total_sequence_length 3"),
        (Case(5, 3, lengths=(3, 2)), [6], "5 new positions with total_sequence_length 3"),
        (
            Case(3, 8, 7, lengths=(2,)), [5, 6],
            "seqlens_k 1: sequences of 2 with 3 new positions, in caches of 8",
        ),
        (
            Case(1, 8, 11, lengths=(12, 12)), [5, 6],
            "seqlens_k 11: sequences of 12 with 1 new positions, in caches of 11",
        ),
    ],
)  # fmt: skip
def test_positions_that_are_not_known(case: Case, constants: list[int], message: str) -> None:
    attributes = {"num_heads": HEADS, "kv_num_heads": SHARED}
    model = contrib_model(OPERATOR, case.inputs(), attributes, constants, ["float32"] * 3)
    with pytest.raises(asd.AutoschedError, match=message):
        asd.from_onnx(model)


def test_constant_lengths_are_those_of_all_calls() -> None:
    """Sequences of one constant length need no masks of data; without one the caches are masked."""
    known = asd.from_onnx(CALLS["token at a known place"].model()).graph
    read = asd.from_onnx(CALLS["tokens in a cache"].model()).graph
    kinds = [{node.op.kind for node in graph.nodes} for graph in (known, read)]
    assert "where" not in kinds[0] and "where" in kinds[1]
