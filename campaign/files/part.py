"""The part of the campaign that damages files."""

from __future__ import annotations

import json
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final

import numpy as np

import autosched as asd
from autosched.measure.simulated import SimulatedRunner
from autosched.records.checksum import with_checksum
from campaign.files.programs import SUBJECTS, is_right, records, subject
from campaign.files.values import damaged
from campaign.graphs.draw import draw_graph
from campaign.graphs.graph import typed_model, values_of
from campaign.part import Mark
from campaign.verdict import Json, Verdict
from sketch.errors import AutoschedError


class FilesPart:
    """Damaged logs, modules and models: right, warned of, or one clear error."""

    def draw(self, seed: int) -> Json:
        """Which file, and the seed of its damage; of a log the lines themselves."""
        rng = Random(seed)
        what = rng.choice(("log",) * 12 + ("module", "module", "model", "model"))
        number = rng.randrange(SUBJECTS)
        case: Json = {"what": what, "subject": number, "seed": rng.randrange(2**31)}
        if what == "log":
            case |= {"lines": _damaged_lines(number, rng), "tune": rng.random() < 0.1}
        return case

    def judge(self, case: Json, mark: Mark) -> Verdict:
        """Use the damaged file as its owner would."""
        counts = {f"{case['what']}s": 1}
        judges = {"log": _log, "module": _module, "model": _model}
        with warnings.catch_warnings(record=True) as caught, tempfile.TemporaryDirectory() as place:
            warnings.simplefilter("always")
            try:
                problem = judges[case["what"]](case, Path(place), mark)
            except AutoschedError as error:
                text = str(error)
                if not text or len(text) > 2000:
                    return Verdict("error", f"unclear: {text[:200]!r} ({len(text)})", counts)
                return Verdict("refused", f"{type(error).__name__}: {text}"[:300], counts)
            messages = [str(w.message) for w in caught if issubclass(w.category, UserWarning)]
        counts["warned"] = int(bool(messages))
        return Verdict("wrong" if problem else "right", problem or "", counts)

    def smaller(self, case: Json) -> Iterator[Json]:
        """Fewer lines of a log."""
        lines = case.get("lines", [])
        for place in range(len(lines)):
            if len(lines) > 1:
                yield {**case, "lines": lines[:place] + lines[place + 1 :]}


def _damaged_lines(number: int, rng: Random) -> list[str]:
    """A few records, at least one of them damaged; its checksum fits, mostly, or there is none."""
    chosen = rng.sample(records(number), rng.choice((1, 1, 2, 3)))
    lines = []
    for place, record in enumerate(chosen):
        if place and rng.random() < 0.5:
            lines.append(json.dumps(record))
            continue
        data = json.loads(json.dumps(record))
        part = rng.choice(("steps", "decisions", "steps", "decisions", None))
        if part is None:
            data = damaged(data, rng)
        else:
            data[part] = damaged(data[part], rng)
        kind = rng.random()
        if isinstance(data, dict) and kind < 0.8:
            data = with_checksum(data)
        elif isinstance(data, dict) and kind < 0.9:
            data = {**data, "v": 1}
            data.pop("crc32", None)
        lines.append(json.dumps(data))
    return lines


def _log(case: Json, place: Path, mark: Mark) -> str | None:
    which = subject(case["subject"])
    path = place / "damaged.jsonl"
    path.write_text("\n".join(case["lines"]) + "\n", encoding="utf-8")
    if case["tune"]:
        mark("resume")
        which.task.tune(trials=8, log=path, runner=SimulatedRunner(), quiet=True)
    mark("compile")
    module = which.task.module(dict(which.constants), log=path)
    mark("run")
    found = module.run(dict(which.inputs))[which.output]
    return None if is_right(which, found) else f"a wrong result of {case['lines'][0][:200]}"


def _module(case: Json, place: Path, mark: Mark) -> str | None:
    which, rng = subject(case["subject"]), Random(case["seed"])
    path = place / "damaged.asd"
    which.task.module(dict(which.constants)).save(path)
    path.write_bytes(_damaged_bytes(path.read_bytes(), rng))
    mark("load")
    module = asd.load(path, trusted=rng.random() < 0.5)
    mark("run")
    found = module.run(dict(which.inputs))[which.output]
    return None if is_right(which, found) else "a damaged module was loaded"


def _model(case: Json, place: Path, mark: Mark) -> str | None:
    """Small enough results are computed, too."""
    rng = Random(case["seed"])
    graph = draw_graph(rng)
    path = place / "damaged.onnx"
    path.write_bytes(_damaged_bytes(typed_model(graph).SerializeToString(), rng))
    mark("import")
    network = asd.from_onnx(path)
    sizes = [int(np.prod(v.shape, dtype=np.float64)) for v in (*network.inputs, *network.outputs)]
    if max(sizes, default=0) > 1 << 20:
        return None
    mark("compile")
    module = asd.compile(network, threads=1)
    given = values_of(graph)
    inputs: dict[str, Any] = {}
    for value in network.inputs:
        array = given.get(value.name)
        fits = array is not None and array.shape == value.shape and array.dtype == value.dtype
        inputs[value.name] = array if fits else np.zeros(value.shape, value.dtype)
    mark("run")
    module.run(inputs)
    return None


def _damaged_bytes(data: bytes, rng: Random) -> bytes:
    found = bytearray(data)
    if rng.random() < 0.15:
        return bytes(found[: rng.randrange(len(found))])
    for _ in range(rng.choice((1, 1, 2, 5))):
        at = rng.randrange(len(found))
        kind = rng.random()
        if kind < 0.4:
            found[at] ^= 1 << rng.randrange(8)
        elif kind < 0.8:
            found[at] = rng.choice((0, 1, 2, 0x7F, 0x80, 0xFF))
        else:
            found[at:at] = found[at : at + rng.randrange(1, 9)]
    return bytes(found)


PART: Final = FilesPart()
