"""A network by ``torch.compile(mode="max-autotune")`` on a GPU, in a process of its own.

    python -m benchmarks.gpu_parts.torch_compiled resnet-18

It may compile for minutes, and what it raises must not end the part: the last line that it prints
is the row.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any, Final

from autosched import zoo
from autosched.onnx.export import to_onnx
from benchmarks.gpu_parts.limited import run_limited
from benchmarks.gpu_parts.rivals import cuda_torch, torch_seconds
from benchmarks.gpu_parts.row_log import Row
from benchmarks.harness import relative_error

RUNS: Final = 50
"""Executions one after another that a time is the mean of."""

ROUNDS: Final = 9
"""Times that the result is the median of."""

_ROOT: Final = Path(__file__).parents[2]
_MARK: Final = "row: "
_LAST_LINES: Final = 20


def rival_row(name: str, image: int | None, seconds: float) -> Row:
    """What the rival reaches, or why there is no rival.

    Args:
        name: of a network of the zoo.
        image: size of its image, or tokens of its sequence; None: its own.
        seconds: that this may take.
    """
    size = () if image is None else ("--image", str(image))
    words = [sys.executable, "-m", __spec__.name, name, *size]
    ended = run_limited(words, seconds, _ROOT)
    row = _row_in(ended.lines)
    if row is not None:
        return row
    why = f"not ready after {seconds:.0f} s" if ended.status is None else "it failed"
    return {"done": False, "rival": f"no rival here: {why}", "end": ended.lines[-_LAST_LINES:]}


def _row_in(lines: Sequence[str]) -> Row | None:
    found = [line for line in lines if line.startswith(_MARK)]
    row: Row | None = json.loads(found[-1].removeprefix(_MARK)) if found else None
    return row


def _measured(name: str, image: int | None) -> Row:
    try:
        torch = cuda_torch()
    except OSError as error:
        return {"rival": f"no rival here: {error}", "done": True}
    from torch._inductor import config

    from benchmarks.rivals.torch_module import module_from_onnx

    config.freezing = True  # weights are constants, for us too

    network = zoo.build(name, image=image)
    model = to_onnx(network.graph).SerializeToString()
    module, names, _ = module_from_onnx(model)
    given = {value.name: value for value in network.inputs}
    inputs = [_tensor(torch, given[name]) for name in names]
    start = time.monotonic()
    module = module.cuda()
    for parameter in module.parameters():
        parameter.data = _laid_out(torch, parameter.data)
    expected = [t.cpu().numpy() for t in module(*inputs)]
    compiled = torch.compile(module, mode="max-autotune")
    for _ in range(5):  # compiles, warms up, captures
        outputs = compiled(*inputs)
    torch.cuda.synchronize()
    prepare_s = time.monotonic() - start
    pairs = zip(outputs, expected, strict=True)
    difference = max(relative_error(a.cpu().numpy(), b) for a, b in pairs)

    def runs() -> None:
        for _ in range(RUNS):
            compiled(*inputs)

    seconds = median(torch_seconds(torch, runs) for _ in range(ROUNDS)) / RUNS
    return {
        "done": True,
        "rival": f"torch {torch.__version__} compile(max-autotune)",
        "rival_ms": seconds * 1e3,
        "prepare_s": prepare_s,
        "difference_to_eager": difference,
    }


def _tensor(torch: Any, value: Any) -> Any:
    if "int" in value.dtype:
        return torch.ones(value.shape, dtype=getattr(torch, value.dtype), device="cuda")
    return _laid_out(torch, torch.randn(value.shape, device="cuda"))


def _laid_out(torch: Any, tensor: Any) -> Any:
    """Images and their weights with channels last, which is fastest there."""
    return tensor.to(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor


def main() -> None:
    """Measure, and print the row."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("network")
    parser.add_argument("--image", type=int)
    arguments = parser.parse_args()
    print(f"{_MARK}{json.dumps(_measured(arguments.network, arguments.image))}", flush=True)


if __name__ == "__main__":
    main()
