"""Models as PyTorch's exporter writes them."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.optimize import optimize
from autosched.onnx.importer import from_onnx
from tests.support.lazily import lazily

torch = lazily("torch", "onnxscript")
modules = lazily("tests.support.torch_modules")
nn = lazily("torch.nn")
pytestmark = pytest.mark.usefixtures("torchlib")


def _resnet() -> Any:
    stem = (nn.Conv2d(3, 8, 7, 2, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU())
    pool = nn.MaxPool2d(3, 2, 1)
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 10))
    return nn.Sequential(*stem, pool, modules.Residual(), modules.Residual(), *head)


def _vgg() -> Any:
    features = (nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(inplace=True), nn.MaxPool2d(2, 2),
                nn.Conv2d(8, 16, 3, padding=1), nn.ReLU6(), nn.AvgPool2d(2, 2))  # fmt: skip
    head = (nn.Linear(16 * 8 * 8, 32), nn.ReLU(), nn.Dropout(), nn.Linear(32, 10), nn.Softmax(-1))
    return nn.Sequential(*features, nn.Flatten(), *head)


def _unusual() -> Any:
    """Shapes computed from the input, a mean over maps, a concatenation, padding."""
    return modules.Unusual()


def _randomised(model: Any) -> Any:
    """In evaluation mode, with statistics that are not those of a fresh batch-norm."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.uniform_(-0.5, 0.5)
            module.running_var.uniform_(0.5, 2.0)
    return model.eval()


@pytest.mark.parametrize(
    "make", [_unusual, *(pytest.param(make, marks=pytest.mark.slow) for make in (_resnet, _vgg))]
)
@pytest.mark.parametrize("dynamo", [False, True], ids=["torchscript", "dynamo"])
def test_exported_models_agree_with_torch(make: Any, dynamo: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = _randomised(make())
    example = torch.randn(2, 3, 32, 32)
    path = tmp_path / "model.onnx"
    try:
        torch.onnx.export(
            model, (example,), str(path), dynamo=dynamo, input_names=["data"],
            output_names=["y"],
        )  # fmt: skip
    except torch.onnx.OnnxExporterError as error:
        pytest.skip(f"this torch cannot export so: {error}")
    network = from_onnx(path)
    assert [(v.name, v.shape) for v in network.inputs] == [("data", (2, 3, 32, 32))]
    with torch.no_grad():
        expected = model(example).numpy()
    value = evaluate(optimize(network.graph), {"data": example.numpy()})["y"]
    assert value.shape == expected.shape
    assert np.abs(value - expected).max() <= 1e-5 * np.abs(expected).max()
    assert extract(network).subgraphs
