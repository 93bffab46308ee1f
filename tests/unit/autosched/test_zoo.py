"""The zoo: networks, seeds, sizes, and weights that keep activations in range."""

import numpy as np
import onnxruntime
import pytest

from autosched import zoo
from autosched.graph.errors import GraphError
from autosched.graph.evaluate import evaluate
from autosched.graph.ir import Graph, Network, Result
from autosched.graph.optimize import optimize
from autosched.onnx_export import to_onnx


def _image(network: Network) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {v.name: rng.standard_normal(v.shape, dtype=np.float32) for v in network.inputs}


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("resnet-18", (3, 3, 40, 40), 1000),
        ("resnet-34", (1, 3, 32, 32), 1000),
        ("resnet-50", (1, 3, 33, 33), 1000),
        ("mlp", (3, 256), 10),
    ],
)
def test_networks_agree_with_onnxruntime(name: str, shape: tuple[int, ...], classes: int) -> None:
    network = zoo.build(name, shape[0], image=16 if name == "mlp" else shape[2])
    assert [(v.name, v.shape) for v in network.inputs] == [("data", shape)]
    assert [(v.name, v.shape) for v in network.outputs] == [("logits", (shape[0], classes))]
    session = onnxruntime.InferenceSession(
        to_onnx(network.graph).SerializeToString(), providers=["CPUExecutionProvider"]
    )
    inputs = _image(network)
    reference = session.run(None, inputs)[0]
    value = evaluate(optimize(network.graph), inputs)["logits"]
    assert np.abs(value - reference).max() <= 1e-4 * np.abs(reference).max()


@pytest.mark.parametrize("name", ["resnet-18", "resnet-50"])
def test_activations_stay_of_order_one(name: str) -> None:
    graph = zoo.build(name, image=64).graph
    taps = [n.output for n in graph.nodes if n.op.kind in ("relu", "batch_norm", "dense")]
    tapped = Graph(
        graph.name, graph.inputs, tuple(Result(t, t) for t in taps), graph.nodes, graph.constants
    )
    for output, array in evaluate(tapped, _image(Network(name, graph))).items():
        spread = float(np.sqrt((array**2).mean()))
        assert 0.05 < spread < 20, f"{output}: root mean square {spread}"
        small = np.abs(array[array != 0])
        assert small.min() > 1e-30


def _weights(network: Network) -> dict[str, np.ndarray]:
    return dict(network.graph.constants)


def test_weights_follow_from_the_seed_alone() -> None:
    first = _weights(zoo.build("resnet-18", image=32))
    again = _weights(zoo.build("resnet-18", batch=4, image=64))
    other = _weights(zoo.build("resnet-18", image=32, seed=1))
    assert first.keys() == again.keys() == other.keys()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not np.array_equal(first["fc.weight"], other["fc.weight"])


def test_default_sizes() -> None:
    assert zoo.resnet18().inputs[0].shape == (1, 3, 224, 224)
    assert zoo.build("mlp").inputs[0].shape == (1, 784)


@pytest.mark.parametrize(
    ("wrong", "guess"), [("resnet18", "did you mean 'resnet-18'"), ("quux", "zoo | known: ")]
)
def test_unknown_names_list_what_there_is(wrong: str, guess: str) -> None:
    with pytest.raises(GraphError) as caught:
        zoo.build(wrong)
    text = str(caught.value)
    assert guess in text
    assert all(name in text for name in zoo.NAMES)


@pytest.mark.parametrize("sizes", [{"image": 0}, {"batch": 0}, {"image": -5}])
def test_sizes_that_make_no_network_are_rejected(sizes: dict[str, int]) -> None:
    with pytest.raises(GraphError):
        zoo.build("resnet-18", **sizes)
