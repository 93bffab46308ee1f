"""Programs that are a little simpler than a given one."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from campaign.tensor.bodies import loads
from campaign.tensor.express import dag_of
from campaign.verdict import Json
from sketch.errors import AutoschedError


def smaller_programs(program: Json) -> Iterator[Json]:
    """Fewer kernels, fewer stages, simpler bodies, smaller extents, a plainer target."""
    yield from _fewer_choices(program)
    yield from _fewer_stages(program)
    yield from _simpler_bodies(program)
    yield from _smaller_extents(program)
    yield from _plainer(program)


def _changed(program: Json, **fields: Any) -> Json:
    return {**copy.deepcopy(program), **fields}


def _fewer_choices(program: Json) -> Iterator[Json]:
    rows = program["rows"]
    if len(rows["sketches"]) > 1:
        for n in range(len(rows["sketches"])):
            yield _changed(program, rows={**rows, "sketches": rows["sketches"][n : n + 1]})
    if len(program["outputs"]) > 1:
        for name in program["outputs"]:
            yield _pruned(_changed(program, outputs=[name]))


def _fewer_stages(program: Json) -> Iterator[Json]:
    """The results of a stage become inputs, with what it read left away."""
    try:
        dtypes = {op.name: op.output_dtypes for op in dag_of(program).stages}
    except AutoschedError:
        return
    for place, stage in enumerate(program["stages"]):
        if stage["name"] in program["outputs"] or stage["store"]:
            continue
        made = _changed(program)
        del made["stages"][place]
        found = dtypes[stage["name"]]
        for number, dtype in enumerate(found):
            name = f"{stage['name']}.v{number}" if len(found) > 1 else stage["name"]
            made["inputs"].append({
                "name": name, "shape": [extent for _, extent in stage["axes"]],
                "dtype": dtype, "constant": False, "kind": "unit", "high": 0,
            })  # fmt: skip
        yield _pruned(made)


def _simpler_bodies(program: Json) -> Iterator[Json]:
    """An operation becomes one of its operands."""
    for stage in range(len(program["stages"])):
        for path, node in list(_nodes(program["stages"][stage]["bodies"], ())):
            if node[0] in ("axis", "const", "load"):
                continue
            for part in node[1:]:
                if isinstance(part, list):
                    made = _changed(program)
                    _put(made["stages"][stage]["bodies"], path, part)
                    yield _pruned(made)


def _smaller_extents(program: Json) -> Iterator[Json]:
    """Shorter axes; inputs keep their shapes, and so stay long enough."""
    for place, stage in enumerate(program["stages"]):
        if stage["store"]:
            continue
        groups = [stage["axes"], *([stage["reduce"]["axes"]] if stage["reduce"] else [])]
        for group, axes in enumerate(groups):
            for number, (_, extent) in enumerate(axes):
                for shorter in {1, extent // 2, extent - 1} - {0, extent}:
                    made = _changed(program)
                    changed = made["stages"][place]
                    target = changed["axes"] if group == 0 else changed["reduce"]["axes"]
                    target[number][1] = shorter
                    yield made


def _plainer(program: Json) -> Iterator[Json]:
    name, threads = program["target"]
    if threads > 1:
        yield _changed(program, target=[name, 1])
    if name != "host":
        yield _changed(program, target=["host", threads])
    for place, entry in enumerate(program["inputs"]):
        if entry["constant"]:
            made = _changed(program)
            made["inputs"][place]["constant"] = False
            yield made


def _nodes(node: Any, path: tuple[int, ...]) -> Iterator[tuple[tuple[int, ...], Any]]:
    """All expressions below, the outermost first, with where they stand."""
    if isinstance(node, list):
        if node and isinstance(node[0], str):
            yield path, node
        for place, part in enumerate(node):
            yield from _nodes(part, (*path, place))


def _put(root: list[Any], path: tuple[int, ...], value: Any) -> None:
    for place in path[:-1]:
        root = root[place]
    root[path[-1]] = copy.deepcopy(value)


def _pruned(program: Json) -> Json:
    """Without the stages and inputs that no output needs."""
    needed = set(program["outputs"])
    kept: list[Json] = []
    for stage in reversed(program["stages"]):
        names = {stage["name"], *(f"{stage['name']}.v{n}" for n in range(3))}
        buffer = stage["store"]["buffer"] if stage["store"] else None
        if names & needed or buffer in needed:
            kept.insert(0, stage)
            needed |= loads(stage["bodies"])
    inputs = [entry for entry in program["inputs"] if entry["name"] in needed]
    return {**program, "stages": kept, "inputs": inputs}
