"""Programs as JSON values, and back: every value of a file is of the type that it must have."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from typing import Any, Final, TypeVar

from autosched.runtime.errors import ModuleFileError
from autosched.runtime.program import (
    SEGMENTS,
    Argument,
    ExecutionPlan,
    HostStep,
    Moving,
    Place,
    RepeatedSteps,
    Step,
    StepInfo,
    TensorSpec,
)
from autosched.system.json_values import (
    json_list,
    json_number,
    json_object,
    json_text,
    json_whole,
)
from codegen.denormals import DENORMALS, Denormals
from sketch.errors import TargetError
from sketch.target.target import Target

T = TypeVar("T")

PROGRAM_VERSION: Final = 7
_MOST: Final = 1 << 48  # bytes, elements, iterations: beyond any machine, far from overflows


def program_json(program: ExecutionPlan) -> dict[str, Any]:
    """All of a program as JSON values."""
    return {
        "version": PROGRAM_VERSION,
        "name": program.name,
        "target": program.target.to_json(),
        "inputs": [_spec_json(spec) for spec in program.inputs],
        "outputs": [[_spec_json(spec), _place_json(place)] for spec, place in program.outputs],
        "steps": [_step_json(step) for step in program.steps],
        "arena_bytes": program.arena_bytes,
        "constants_bytes": program.constants_bytes,
        "loops": [[loop.first, loop.count, loop.trips] for loop in program.loops],
        "denormals": program.denormals,
    }


def program_of(data: Any) -> ExecutionPlan:
    """The inverse of ``program_json``.

    Raises:
        ModuleFileError: another version, or a value that is missing, of a wrong type, or out of
            any range; whether the values fit each other is for ``plan_check``.
    """
    version = data.get("version") if isinstance(data, Mapping) else None
    if version != PROGRAM_VERSION or isinstance(version, bool):
        raise ModuleFileError(
            f"module format {version!r}, this release reads {PROGRAM_VERSION}",
            hint="compile the network again with this release, or update autosched",
        )
    try:
        return ExecutionPlan(
            name=json_text(data["name"]),
            target=Target.from_json(json_object(data["target"])),
            inputs=_each(_spec_of, data["inputs"]),
            outputs=_each(_output_of, data["outputs"]),
            steps=_each(_step_of, data["steps"]),
            arena_bytes=_count(data["arena_bytes"]),
            constants_bytes=_count(data["constants_bytes"]),
            loops=_each(lambda row: RepeatedSteps(*_three(_each(_count, row))), data["loops"]),
            denormals=_denormals_of(data["denormals"]),
        )
    except (KeyError, TypeError, ValueError, TargetError) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) else str(error)
        raise ModuleFileError(f"the module's plan is damaged: {what[:300]}") from error


def _spec_json(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "shape": list(spec.shape), "dtype": spec.dtype}


def _place_json(place: Place) -> list[Any]:
    return [place.segment, place.offset]


def _argument_json(argument: Argument) -> Any:
    if isinstance(argument, Place):
        return _place_json(argument)
    first = None if argument.first is None else _place_json(argument.first)
    return {
        "place": _place_json(argument.place),
        "start": argument.start,
        "stride": argument.stride,
        "period": argument.period,
        "first": first,
    }


def _step_json(step: Step | HostStep) -> dict[str, Any]:
    info = {item.name: getattr(step.info, item.name) for item in fields(step.info)}
    info["layers"] = list(step.info.layers)
    info["functions"] = [list(calls) for calls in step.info.functions]
    if isinstance(step, Step):
        places = [_argument_json(argument) for argument in step.arguments]
        sizes = list(step.sizes)
        return {"symbol": step.symbol, "arguments": places, "sizes": sizes, "info": info}
    inputs = [[_spec_json(spec), _place_json(place)] for spec, place in step.inputs]
    outputs = [[n, _spec_json(spec), _place_json(place)] for n, spec, place in step.outputs]
    return {"payload": step.payload, "inputs": inputs, "outputs": outputs, "info": info}


def _step_of(value: Any) -> Step | HostStep:
    data = json_object(value)
    info = _info_of(json_object(data["info"]))
    if "payload" not in data:
        arguments = _each(_argument_of, data["arguments"])
        return Step(json_text(data["symbol"]), arguments, info, _each(_count, data["sizes"]))
    return HostStep(
        payload=json_text(data["payload"]),
        inputs=_each(_output_of, data["inputs"]),
        outputs=_each(_result_of, data["outputs"]),
        info=info,
    )


def _info_of(data: Mapping[str, Any]) -> StepInfo:
    return StepInfo(
        name=json_text(data["name"]),
        layers=_each(json_text, data["layers"]),
        op=json_text(data["op"]),
        shapes=json_text(data["shapes"]),
        flops=_amount(data["flops"]),
        task=json_text(data["task"]),
        schedule=json_text(data["schedule"]),
        bytes=_amount(data["bytes"]),
        algorithm=json_text(data["algorithm"]),
        # Files from before do not have the rest.
        unit=json_text(data.get("unit", "")),
        written=_amount(data.get("written", 0)),
        functions=_each(_calls_of, data.get("functions", [])),
        computed=_amount(data.get("computed", 0)),
    )


def _calls_of(value: Any) -> tuple[str, float]:
    name, calls = json_list(value, 2)
    return json_text(name), _amount(calls)


def _argument_of(value: Any) -> Argument:
    if not isinstance(value, Mapping):
        return _place_of(value)
    first = None if value["first"] is None else _place_of(value["first"])
    start, stride = (_whole(value[name]) for name in ("start", "stride"))
    return Moving(_place_of(value["place"]), start, stride, _count(value["period"]), first)


def _denormals_of(value: Any) -> Denormals:
    found: list[Denormals] = [mode for mode in DENORMALS if mode == value]
    if not found:
        raise ValueError(f"no treatment of denormal numbers is called {value!r}")
    return found[0]


def _place_of(value: Any) -> Place:
    segment, offset = json_list(value, 2)
    if segment not in SEGMENTS:
        raise ValueError(f"no segment {segment!r}")
    return Place(segment, _count(offset))


def _spec_of(value: Any) -> TensorSpec:
    data = json_object(value)
    return TensorSpec(
        json_text(data["name"]), _each(_count, data["shape"]), json_text(data["dtype"])
    )


def _output_of(value: Any) -> tuple[TensorSpec, Place]:
    spec, place = json_list(value, 2)
    return _spec_of(spec), _place_of(place)


def _result_of(value: Any) -> tuple[int, TensorSpec, Place]:
    number, spec, place = json_list(value, 3)
    return _count(number), _spec_of(spec), _place_of(place)


def _each(read: Callable[[Any], T], values: Any) -> tuple[T, ...]:
    return tuple(read(value) for value in json_list(values))


def _three(values: tuple[int, ...]) -> tuple[int, int, int]:
    first, count, trips = values
    return first, count, trips


def _whole(value: Any) -> int:
    return json_whole(value, _MOST)


def _count(value: Any) -> int:
    if _whole(value) < 0:
        raise ValueError(f"{value} is negative")
    return int(value)


def _amount(value: Any) -> float:
    amount = json_number(value)
    if amount < 0:
        raise ValueError(f"{amount} is no amount")
    return amount
