"""Evaluates pieces of ONNX models on the host: what no kernel computes.

The one place that runs them: for the graph's reference, for constant folding and for modules.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.host.engines import HostEngine, exact_engine, output_description
from autosched.system.element_types import element_type
from autosched.system.signal_handlers import raised_by_handler
from sketch.errors import AutoschedError

PROBED: Final = "its shape was found with a few random inputs"
"""The description of an output of a model whose shape nothing else is known of."""


class HostError(AutoschedError):
    """A host operator failed on the data it was given, or cannot be evaluated at all."""


class HostEvaluator:
    """An ONNX model, ready to be evaluated."""

    def __init__(
        self,
        operator: str,
        payload: bytes,
        make_engine: Callable[[bytes], HostEngine] = exact_engine,
    ) -> None:
        """Parse ``payload`` (a serialized ONNX model); ``operator`` is its name in messages.

        ``make_engine``: by default what defines the results; modules take the fastest engine.

        Raises:
            HostError: onnx is not installed, or has no implementation of an operator.
        """
        self._where, self._payload = f"host operator {operator}", payload
        try:
            self._engine = make_engine(payload)
        except ImportError as error:
            raise HostError(
                "the onnx package is not installed", self._where, "install autosched[onnx]"
            ) from error
        except Exception as error:  # whatever onnx raises for operators that it does not have
            raise HostError(f"onnx cannot evaluate it: {_text(error)}", self._where) from error

    @property
    def engine(self) -> str:
        """What evaluates it, for people."""
        return self._engine.name

    def run(self, inputs: Sequence[NDArray[Any]]) -> list[NDArray[Any]]:
        """All outputs as arrays (strings as objects); the inputs stay as they are.

        Raises:
            HostError: the evaluation failed on these inputs, or a result is no tensor.
        """
        return [self._array(value) for value in self.raw(inputs)]

    def raw(self, inputs: Sequence[NDArray[Any]]) -> list[Any]:
        """All outputs as the engine has them: arrays, lists, or None.

        Raises:
            HostError: the evaluation failed on these inputs.
        """
        names = self._engine.input_names
        if len(names) != len(inputs):
            raise HostError(f"{len(inputs)} inputs for the {len(names)} of the model", self._where)
        feeds = {n: _read_only(array) for n, array in zip(names, inputs, strict=True)}
        try:
            return self._engine.evaluate(feeds)
        except Exception as error:  # a hundred implementations, each with its own errors
            if raised_by_handler(error):
                raise
            raise HostError(
                f"the evaluation failed: {_text(error)}", self._where, "check the input values"
            ) from error

    def result(
        self, values: Sequence[NDArray[Any]], index: int, shape: tuple[int, ...], dtype: str
    ) -> NDArray[Any]:
        """One of the values that ``run`` gave, in the dtype that was promised.

        Args:
            values: all results.
            index: which one.
            shape: that was promised.
            dtype: that was promised.

        Raises:
            HostError: there are fewer of them, or its shape is not what was promised.
        """
        if index >= len(values):
            raise HostError(f"result {index} of {len(values)}", self._where)
        value = values[index]
        if value.shape != shape:
            assumed = self._is_probed(index)
            source = "was assumed from a probe" if assumed else "is what the model promises"
            raise HostError(
                f"a result has shape {value.shape} on these inputs, {shape} {source}",
                self._where,
                "check that positions and sizes among the inputs are in range; an operator whose "
                "shape depends on data cannot be in the model",
            )
        return value.astype(element_type(dtype), copy=False)

    def _is_probed(self, index: int) -> bool:
        """Whether the importer knew the shape of an output from a few random inputs alone."""
        return output_description(self._payload, index) == PROBED

    def _array(self, value: Any) -> NDArray[Any]:
        if value is None or isinstance(value, list | tuple | dict):
            raise HostError(f"a result is a {type(value).__name__}, no tensor", self._where)
        array = np.asarray(value)
        return array.astype(object) if array.dtype.kind in "US" else array


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.flags.writeable = False
    return view


def _text(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__
