"""``InferenceSession``: a network behind the interface of ONNX Runtime, for simple use."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from os import PathLike, fspath
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from autosched.api import AnyTarget, load, resolve_target
from autosched.api import compile as compile_network
from autosched.io_binding import IOBinding
from autosched.network_source import PathText
from autosched.onnx.type_names import numpy_name
from autosched.runtime.errors import InputError
from autosched.runtime.module import Module
from autosched.session_models import (
    CompiledModel,
    ModelMetadata,
    NodeArg,
    SessionModel,
    onnx_model,
)
from autosched.system.element_types import element_type
from autosched.system.errors import OptionError
from sketch.errors import quoted

if TYPE_CHECKING:
    from autosched.tuning.options import Effort

_COMPILED: Final = ".asd"
_PROVIDERS: Final = {"cpu": "CPUExecutionProvider", "cuda": "CUDAExecutionProvider"}


class InferenceSession:
    """A network that is run as ``onnxruntime.InferenceSession`` runs it.

        >>> asd.compile(asd.zoo.build("mlp", image=4), effort="none").save("mlp.asd")
        >>> session = asd.InferenceSession("mlp.asd", providers=["CPUExecutionProvider"])
        >>> name = session.get_inputs()[0].name
        >>> (logits,) = session.run(None, {name: np.ones((1, 16), np.float32)})
        >>> logits.shape
        (1, 10)

    ``run``, ``get_inputs``, ``get_outputs``, ``get_providers``, ``get_modelmeta``, ``io_binding``
    and ``run_with_iobinding`` are those of ONNX Runtime; any number of threads may call ``run``.
    A model with open shapes is compiled for each set of shapes when it first comes, which takes
    seconds.
    """

    def __init__(
        self,
        path_or_bytes: PathText | bytes | Module,
        sess_options: Any = None,
        providers: Sequence[Any] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        disabled_optimizers: Collection[str] | None = None,
        target: AnyTarget = "cpu",
        threads: int | None = None,
        log: PathText | None = None,
        effort: Effort = "draft",
        trusted: bool = False,
        shared: bool = False,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Read and compile a model, or load a compiled one.

        Args:
            path_or_bytes: path of an ``.onnx`` or ``.asd`` file, the bytes of an ONNX model, or a
                module.
            sess_options: ``onnxruntime.SessionOptions``, of which ``intra_op_num_threads`` counts.
            providers: as in ONNX Runtime; that of the target must be among them.
            provider_options: as in ONNX Runtime, a dict for each of ``providers``; they say how
                its providers work, and have no meaning here.
            disabled_optimizers: names of ONNX Runtime's own optimizers; has no meaning here.
            target: as in ``compile``; of a compiled model, its own.
            threads: worker threads; None: those of ``sess_options``, else of the target.
            log: records of tuning.
            effort: for operators without a record, as in ``compile``.
            trusted: of an ``.asd`` file, as in ``load``.
            shared: of an ``.asd`` file, as in ``load``.
            values: of an ONNX model, as in ``from_onnx``: inputs that the session does not have.

        Raises:
            AutoschedError: as ``compile`` and ``load``.
            OptionError: no provider fits the target, ``provider_options`` do not fit
                ``providers``, or ``values`` are given for a compiled model.
        """
        _check_provider_options(providers, provider_options)
        model = path_or_bytes
        if threads is None:  # where ONNX Runtime has 0, it chooses
            threads = getattr(sess_options, "intra_op_num_threads", 0) or None
        if isinstance(model, str | PathLike) and fspath(model).endswith(_COMPILED):
            model = load(model, trusted, shared=shared)
        if isinstance(model, Module):
            if values:
                raise OptionError(
                    "values are for ONNX models: those of a compiled one are fixed",
                    hint="give them to from_onnx, before it is compiled",
                )
            self._provider = _provider(model.target.kind, providers)
            self._model: SessionModel = CompiledModel.of(model)
            return
        machine = resolve_target(target, threads)
        self._provider = _provider(machine.kind, providers)
        compiled = partial(compile_network, target=machine, log=log, effort=effort)
        self._model = onnx_model(model, compiled, values or {})

    def get_inputs(self) -> list[NodeArg]:
        """The model's inputs, in order."""
        return list(self._model.inputs)

    def get_outputs(self) -> list[NodeArg]:
        """The model's outputs, in order."""
        return list(self._model.outputs)

    def get_providers(self) -> list[str]:
        """Where it runs, in ONNX Runtime's words."""
        return [self._provider]

    def get_modelmeta(self) -> ModelMetadata:
        """What the model says of itself; of a compiled one, its name."""
        return self._model.metadata

    def io_binding(self) -> IOBinding:
        """A new one, for ``run_with_iobinding``."""
        return IOBinding([arg.name for arg in self._model.outputs])

    def run_with_iobinding(self, iobinding: IOBinding, run_options: Any = None) -> None:
        """Compute the outputs that are bound from the inputs that are.

        Args:
            iobinding: of this session.
            run_options: has no meaning here.

        Raises:
            InputError: as ``run``, no output is bound, or memory that is bound does not fit one.
            HostError: as ``run``.
        """
        iobinding.run(self._run)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        run_options: Any = None,
    ) -> list[NDArray[Any]]:
        """Compute outputs.

        Args:
            output_names: which, in which order; None: all, in the model's order.
            input_feed: an array, or a list of numbers, for each input name.
            run_options: has no meaning here.

        Raises:
            InputError: an output or input is unknown or missing, or an array does not fit.
            HostError: an operator that runs on the host failed on these values.
        """
        wanted = _wanted(output_names, [arg.name for arg in self._model.outputs])
        outputs = self._run(input_feed)
        return [outputs[name] for name in wanted]

    def _run(
        self, feed: Mapping[str, Any], out: Mapping[str, NDArray[Any]] | None = None
    ) -> dict[str, NDArray[Any]]:
        arrays = self._arrays(feed)
        return self._model.module_for(arrays).run(arrays, out)

    def _arrays(self, feed: Mapping[str, Any]) -> Mapping[str, Any]:
        """The inputs with lists as arrays of what the model takes."""
        if not isinstance(feed, Mapping):
            return feed  # which is an error, later
        types = {arg.name: arg.type for arg in self._model.inputs}
        return {
            name: _array_of(value, types[name], f"input {name!r}")
            if name in types and isinstance(value, list | tuple)
            else value
            for name, value in feed.items()
        }


def _wanted(names: object, known: list[str]) -> list[str]:
    """The outputs that a caller names, or all; raises InputError for other things than names."""
    if isinstance(names, str) or not isinstance(names, Iterable | None):
        raise InputError(f"output_names is {quoted(names)}", hint="give a list of names, or None")
    wanted = list(names or ()) or known
    unknown = [name for name in wanted if name not in known]
    if unknown:
        raise InputError(
            f"no output is named {quoted(unknown[0])}", hint=f"the model has {', '.join(known)}"
        )
    return wanted


def _array_of(value: Sequence[Any], kind: str, where: str) -> NDArray[Any]:
    """An array of numbers in a list; ``kind``: in ONNX's words.

    Raises:
        InputError: the list is no array of that type.
    """
    try:
        return np.asarray(value, element_type(numpy_name(kind)))
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"the list is no {kind}: {error}", where) from error


def _provider(kind: str, providers: Sequence[Any] | None) -> str:
    """The provider of a kind of target; raises OptionError where it is not among those wanted."""
    mine = _PROVIDERS[kind]
    names = _provider_names(providers)
    if names and mine not in names:
        raise OptionError(
            f"providers {', '.join(names)} do not have {mine}, where a {kind} target runs",
            hint=f'leave providers out, or give target="{"cuda" if kind == "cpu" else "cpu"}"',
        )
    return mine


def _provider_names(providers: object) -> list[str]:
    """The names in what ONNX Runtime takes: names, or pairs of a name and options."""
    given = () if providers is None else providers
    if isinstance(given, list | tuple):
        names = [item[0] if isinstance(item, tuple) and item else item for item in given]
        if all(isinstance(name, str) for name in names):
            return names
    raise OptionError(f"providers is {quoted(providers)}", hint="give a list of names, or None")


def _check_provider_options(providers: Sequence[Any] | None, options: object) -> None:
    """Raise OptionError unless there is a dict for each provider, or none at all."""
    if options is None:
        return
    dicts = isinstance(options, list | tuple) and all(isinstance(o, Mapping) for o in options)
    if not dicts or len(options) != len(providers or ()):  # type: ignore[arg-type]
        raise OptionError(
            f"provider_options is {quoted(options)}",
            hint="give a list of a dict a provider, or None",
        )
