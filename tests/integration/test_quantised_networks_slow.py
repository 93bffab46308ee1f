"""Networks of the zoo as onnxruntime's quantiser writes them: bytes from kernel to kernel."""

from __future__ import annotations

from pathlib import Path

import pytest

import autosched as asd
from autosched import zoo
from autosched.graph.extract import extract
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.matmul import Dense

pytest.importorskip("onnxruntime.quantization")

import onnx

from benchmarks.quantised import QuantisedCase, quantised
from tests.support.layer_errors import quanta_off

pytestmark = pytest.mark.slow

NETWORKS = {
    "resnet-18": (lambda: zoo.resnet18(image=64), QuantisedCase(False, False)),
    "resnet-50": (lambda: zoo.resnet50(image=64), QuantisedCase(True, True)),
    "mobilenet-v2": (lambda: zoo.mobilenet_v2(image=64), QuantisedCase(False, False)),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_convolutional_networks(name: str, tmp_path: Path) -> None:
    """All layers multiply bytes, all kernels but the last leave bytes."""
    build, case = NETWORKS[name]
    workload = quantised(build(), case, tmp_path)
    network = asd.from_onnx(workload.path)
    found = extract(network)
    types = found.graph.types
    layers = [node for node in found.graph.nodes if isinstance(node.op, Conv | Dense)]
    assert {tuple(types[n].dtype for n in node.inputs[:2]) for node in layers} == {
        ("uint8", "int8")
    }
    assert {types[call.output].dtype for call in found.calls[:-1]} == {"uint8"}


def test_numbers_of_all_layers_are_the_nearest_ones(tmp_path: Path) -> None:
    """Given what a layer reads; from layer to layer one that falls the other way moves many."""
    build, case = NETWORKS["mobilenet-v2"]
    workload = quantised(build(), case, tmp_path)
    errors = quanta_off(
        onnx.load(workload.path),
        workload.arrays(),
        lambda model, data: asd.compile(asd.from_onnx(model), effort="none").run(dict(data)),
    )
    assert len(errors) > 60
    assert max(errors.values()) <= 0.5005, errors


def test_bert(tmp_path: Path) -> None:
    """All layers of constant weights multiply bytes, and so do both products of attention."""
    workload = quantised(zoo.bert_base(tokens=16), QuantisedCase(True, False), tmp_path)
    found = extract(asd.from_onnx(workload.path))
    types = found.graph.types
    layers = [node for node in found.graph.nodes if isinstance(node.op, Dense)]
    assert len(layers) > 72
    products = [node for node in found.graph.nodes if isinstance(node.op, Einsum)]
    assert len(products) == 24
    layers += products
    assert {tuple(types[n].dtype for n in node.inputs[:2]) for node in layers} == {
        ("uint8", "int8")
    }
