"""autosched: a template-free auto-scheduler for tensor programs.

    import autosched as asd

    net = asd.from_onnx("model.onnx")                       # or asd.zoo.build("resnet-18")
    asd.tune(net, target="cpu", budget="10m", log="model.jsonl")
    module = asd.compile(net, target="cpu", log="model.jsonl")
    outputs = module.run({"data": array})

Everything that users need is here.  Names are resolved when they are first used, so that the import
itself is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from autosched.system.release import __version__ as __version__

COMPANIONS = ("sketch", "costmodel", "codegen")


def _check_companion(name: str) -> None:
    """Raise ImportError unless the top-level package ``name`` is the one that belongs to us.

    The name is generic: another distribution, or a file beside a notebook, may have taken it.
    """
    cause: Exception | None = None
    try:
        package = import_module(name)
    except Exception as error:
        cause, found = error, f"importing it failed: {type(error).__name__}: {error}"
    else:
        if getattr(package, "_OWNER", None) == "autosched":
            return
        found = f"found {getattr(package, '__file__', None) or 'an empty folder of that name'}"
    raise ImportError(
        f"autosched needs its own package {name!r}, {found}; uninstall the other {name!r} or use "
        "a fresh virtual environment, then install autosched again"
    ) from cause


for _name in COMPANIONS:
    _check_companion(_name)

if TYPE_CHECKING:
    from autosched import onnx_backend, plots, research, study, workloads, zoo
    from autosched.api import Target, extract_tasks, load, tune
    from autosched.api import compile as compile
    from autosched.compilation.precision import reduce_precision as reduce_precision
    from autosched.graph.precision import PrecisionOptions as PrecisionOptions
    from autosched.inference_session import InferenceSession
    from autosched.measure.options import MeasureOptions
    from autosched.network_source import from_onnx
    from autosched.records.log import RecordLog
    from autosched.records.store import open_store
    from autosched.runtime.module import Module
    from autosched.runtime.probes.calibrate import calibrate
    from autosched.search.options import SearchOptions
    from autosched.task import Task
    from autosched.torch_frontend import from_torch
    from autosched.tuning.options import TuneOptions
    from autosched.workloads import workload
    from costmodel.extra_feature import ExtraFeature
    from sketch.dag.dag import ComputeDAG
    from sketch.errors import AutoschedError
    from sketch.lang.expr import cast, select
    from sketch.lang.functions import abs as abs
    from sketch.lang.functions import (
        acos,
        acosh,
        all_of,
        any_of,
        asin,
        asinh,
        atan,
        atanh,
        bitwise_and,
        bitwise_not,
        bitwise_or,
        bitwise_xor,
        ceil,
        cos,
        cosh,
        equal,
        erf,
        exp,
        expm1,
        floor,
        fmod,
        isinf,
        isnan,
        left_shift,
        log,
        log1p,
        maximum,
        minimum,
        right_shift,
        rsqrt,
        sigmoid,
        sign,
        sin,
        sinh,
        sqrt,
        tan,
        tanh,
        trunc,
        trunc_div,
    )
    from sketch.lang.functions import pow as pow
    from sketch.lang.functions import round as round
    from sketch.lang.reducers import argmax, prod
    from sketch.lang.reducers import max as max
    from sketch.lang.reducers import min as min
    from sketch.lang.reducers import sum as sum
    from sketch.lang.tensor import compute, placeholder, reduce_axis

_HOMES = {
    "autosched.api": ("Target", "compile", "extract_tasks", "load", "tune"),
    "autosched.compilation.precision": ("reduce_precision",),
    "autosched.graph.precision": ("PrecisionOptions",),
    "autosched.inference_session": ("InferenceSession",),
    "autosched.measure.options": ("MeasureOptions",),
    "autosched.network_source": ("from_onnx",),
    "autosched.records.log": ("RecordLog",),
    "autosched.records.store": ("open_store",),
    "autosched.runtime.module": ("Module",),
    "autosched.runtime.probes.calibrate": ("calibrate",),
    "autosched.task": ("Task",),
    "autosched.torch_frontend": ("from_torch",),
    "autosched.search.options": ("SearchOptions",),
    "autosched.tuning.options": ("TuneOptions",),
    "autosched.workloads": ("workload",),
    "costmodel.extra_feature": ("ExtraFeature",),
    "sketch.dag.dag": ("ComputeDAG",),
    "sketch.errors": ("AutoschedError",),
    "sketch.lang.expr": ("cast", "select"),
    "sketch.lang.functions": (
        "abs", "acos", "acosh", "all_of", "any_of", "asin", "asinh", "atan", "atanh",
        "bitwise_and", "bitwise_not", "bitwise_or", "bitwise_xor", "ceil", "cos", "cosh",
        "equal", "erf", "exp", "expm1", "floor", "fmod", "isinf", "isnan", "left_shift",
        "log", "log1p", "maximum", "minimum", "pow", "right_shift", "round", "rsqrt",
        "sigmoid", "sign", "sin", "sinh", "sqrt", "tan", "tanh", "trunc", "trunc_div",
    ),
    "sketch.lang.reducers": ("argmax", "max", "min", "prod", "sum"),
    "sketch.lang.tensor": ("compute", "placeholder", "reduce_axis"),
}  # fmt: skip
_PACKAGES = ("onnx_backend", "plots", "research", "study", "workloads", "zoo")
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "AutoschedError", "ComputeDAG", "ExtraFeature", "InferenceSession", "MeasureOptions", "Module",
    "PrecisionOptions", "RecordLog", "SearchOptions", "Target", "Task", "TuneOptions", "acos",
    "acosh", "all_of",
    "any_of", "argmax", "asin", "asinh", "atan", "atanh", "bitwise_and", "bitwise_not",
    "bitwise_or", "bitwise_xor", "calibrate", "cast", "ceil", "compute", "cos", "cosh", "equal",
    "erf", "exp", "expm1", "extract_tasks", "floor", "fmod", "from_onnx", "from_torch", "isinf",
    "isnan", "left_shift", "load", "log", "log1p", "maximum", "minimum", "onnx_backend",
    "open_store", "placeholder", "plots", "prod", "reduce_axis", "reduce_precision", "research",
    "right_shift", "rsqrt", "select", "sigmoid", "sign", "sin", "sinh", "sqrt", "study", "tan",
    "tanh", "trunc", "trunc_div", "tune", "workload", "workloads", "zoo",
]  # fmt: skip
# `from autosched import *` leaves these functions of Python alone: write `asd.max`.
_LIKE_BUILTINS = ("abs", "compile", "max", "min", "pow", "round", "sum")


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"autosched.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'autosched' has no attribute {name!r}")
    value = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*__all__, *_LIKE_BUILTINS]
