"""LSTM, GRU and RNN on sequences of different lengths, which onnx's own evaluation ignores.

Each sequence of the batch is run by itself, as long as it is; a class replaces onnx's own of the
same name.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from onnx.reference.ops.op_gru import GRU as PlainGRU
from onnx.reference.ops.op_lstm import LSTM as PlainLSTM
from onnx.reference.ops.op_rnn import RNN_14 as PlainRNN

Array = NDArray[Any]


class LSTM(PlainLSTM):  # type: ignore[misc]
    """LSTM: states h and c, and weights of peepholes."""

    op_domain = ""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Array, ...]:
        return _by_sequence(super()._run, inputs, attributes)


class GRU(PlainGRU):  # type: ignore[misc]
    """GRU: state h."""

    op_domain = ""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Array, ...]:
        return _by_sequence(super()._run, inputs, attributes)


class RNN(PlainRNN):  # type: ignore[misc]
    """RNN: state h."""

    op_domain = ""

    def _run(self, *inputs: Any, **attributes: Any) -> tuple[Array, ...]:
        return _by_sequence(super()._run, inputs, attributes)


RECURRENT = (LSTM, GRU, RNN)


def _by_sequence(
    run: Any, inputs: Sequence[Array | None], attributes: dict[str, Any]
) -> tuple[Array, ...]:
    """The outputs of ``run``: Y, zero behind the end of each sequence, and the final states.

    ``inputs``: X, W, R, B, lengths (int32 ``[batch]``), the states, and what has no batch.

    Raises:
        ValueError: a length is less than 1 or more than the data has.
    """
    x, lengths = inputs[0], inputs[4] if len(inputs) > 4 else None
    if x is None or lengths is None:
        return tuple(run(*inputs, **attributes))
    batch = 0 if attributes.get("layout") else 1  # axis of X and of the states
    longest = x.shape[1 - batch]
    if not all(1 <= length <= longest for length in lengths):
        raise ValueError(f"lengths of sequences must be 1 to {longest}, got {lengths.tolist()}")
    parts: list[tuple[Array, ...]] = []
    for number, length in enumerate(lengths):
        own = slice(number, number + 1)
        data = x[own, :length] if batch == 0 else x[:length, own]
        states = [s if s is None else s.take([number], axis=batch) for s in inputs[5:7]]
        y, *final = run(data, *inputs[1:4], None, *states, *inputs[7:], **attributes)
        sides = [(0, 0)] * y.ndim
        sides[1 - batch] = (0, longest - length)
        parts.append((np.pad(y, sides), *final))
    ys, *finals = (list(values) for values in zip(*parts, strict=True))
    last = (np.concatenate(values, axis=batch) for values in finals)
    return (np.concatenate(ys, axis=2 if batch else 0), *last)
