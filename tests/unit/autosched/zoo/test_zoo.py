"""The zoo: networks, seeds, sizes, and weights that keep activations in range."""

import numpy as np
import pytest

from autosched import zoo
from autosched.graph.errors import GraphError
from autosched.graph.evaluate import evaluate
from autosched.graph.extract import extract
from autosched.graph.ir import Graph, Network, Result
from autosched.graph.optimize import optimize
from autosched.onnx.export import to_onnx
from autosched.zoo.bert import Bert, add_bert
from autosched.zoo.layers import LayerBuilder
from tests.support.onnx_sessions import reference_session


def _inputs(network: Network) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(5)
    return {
        v.name: rng.standard_normal(v.shape, dtype=np.float32)
        if v.dtype == "float32"
        else rng.integers(50, size=v.shape)
        for v in network.inputs
    }


@pytest.mark.parametrize(
    ("name", "shape", "classes"),
    [
        ("resnet-18", (3, 3, 40, 40), 1000),
        ("resnet-34", (1, 3, 32, 32), 1000),
        ("resnet-50", (1, 3, 33, 33), 1000),
        ("vgg-16", (1, 3, 32, 32), 1000),
        ("inception-v3", (1, 3, 75, 75), 1000),
        ("mobilenet-v1", (2, 3, 33, 33), 1000),
        ("mobilenet-v2", (2, 3, 33, 33), 1000),
        ("squeezenet-1.1", (2, 3, 34, 34), 1000),
        ("resnet3d-18", (1, 3, 16, 18, 18), 400),
        ("mlp", (3, 256), 10),
    ],
)
def test_classifiers_agree_with_onnxruntime(
    name: str, shape: tuple[int, ...], classes: int
) -> None:
    network = zoo.build(name, shape[0], image=16 if name == "mlp" else shape[-1])
    assert [(v.name, v.shape) for v in network.inputs] == [("data", shape)]
    assert [(v.name, v.shape) for v in network.outputs] == [("logits", (shape[0], classes))]
    _assert_agrees_with_onnxruntime(network)


def _assert_agrees_with_onnxruntime(network: Network) -> None:
    session = reference_session(to_onnx(network.graph).SerializeToString())
    inputs = _inputs(network)
    values = evaluate(optimize(network.graph), inputs)
    for output, reference in zip(network.outputs, session.run(None, inputs), strict=True):
        error = np.abs(values[output.name] - reference).max() / np.abs(reference).max()
        assert error <= 1e-4, output.name


def test_dcgan() -> None:
    network = zoo.build("dcgan", batch=2)
    assert [(v.name, v.shape) for v in network.inputs] == [("latent", (2, 100, 1, 1))]
    assert [(v.name, v.shape) for v in network.outputs] == [("image", (2, 3, 64, 64))]
    _assert_agrees_with_onnxruntime(network)
    with pytest.raises(GraphError, match="64 pixels, not 128"):
        zoo.build("dcgan", image=128)


def _tiny_bert(batch: int, tokens: int) -> Network:
    layers = LayerBuilder("tiny-bert", seed=0)
    add_bert(layers, Bert(layers=2, heads=4, hidden=32, inner=48, words=50), batch, tokens)
    return layers.finish()


def test_bert() -> None:
    network = _tiny_bert(2, 6)
    assert [(v.name, v.shape, v.dtype) for v in network.inputs] == [("input_ids", (2, 6), "int64")]
    shapes = {v.name: v.shape for v in network.outputs}
    assert shapes == {"last_hidden_state": (2, 6, 32), "pooler_output": (2, 32)}
    _assert_agrees_with_onnxruntime(network)
    with pytest.raises(GraphError, match="512 positions, not 513"):
        _tiny_bert(1, 513)


def test_a_layer_of_bert_is_eleven_kernels() -> None:
    kernels = [subgraph.name.rpartition(".")[0] for subgraph in extract(_tiny_bert(1, 6)).subgraphs]
    layer = ["dense_bias"] * 3 + [
        "einsum_div", "softmax", "einsum", "dense_bias_add", "normalize_mul_add",
        "dense_bias_div_erf_add_mul_mul", "dense_bias_add", "normalize_mul_add",
    ]  # fmt: skip
    assert kernels[2 : 2 + 2 * len(layer)] == layer * 2


def test_dla() -> None:
    network = zoo.build("dla-34", image=64)
    shapes = {v.name: v.shape for v in network.outputs}
    assert shapes == {"hm": (1, 80, 16, 16), "wh": (1, 2, 16, 16), "reg": (1, 2, 16, 16)}
    assert zoo.build("dla-34", image=608).outputs[0].shape == (1, 80, 152, 152)
    _assert_agrees_with_onnxruntime(network)


# Published numbers of parameters; all but vgg-16's are quick to draw.
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet-18", 11_689_512),
        ("resnet-50", 25_557_032),
        ("inception-v3", 23_834_568),
        ("mobilenet-v1", 4_231_976),
        ("mobilenet-v2", 3_504_872),
        ("squeezenet-1.1", 1_235_496),
        ("resnet3d-18", 33_371_472),
        ("dcgan", 3_576_704),
        pytest.param("bert-base", 109_482_240, marks=pytest.mark.slow),
        # the published backbone's 15,742,104 less its classifier, the upward path, the heads
        ("dla-34", 15_742_104 - 513_000 + 2_225_920 + 464_724),
        pytest.param("vgg-16", 138_357_544, marks=pytest.mark.slow),
    ],
)
def test_number_of_parameters(name: str, parameters: int) -> None:
    statistics = (".mean", ".variance")
    weights = zoo.build(name).graph.constants
    drawn = [a for n, a in weights.items() if a.ndim and not n.endswith(statistics)]
    assert sum(a.size for a in drawn if a.dtype == np.float32) == parameters


@pytest.mark.parametrize(
    ("name", "image"),
    [
        ("resnet-18", 64),
        ("resnet-50", 64),
        pytest.param("vgg-16", 64, marks=pytest.mark.slow),
        ("inception-v3", 139),
        ("mobilenet-v1", 64),
        ("mobilenet-v2", 64),
        ("squeezenet-1.1", 64),
        pytest.param("resnet3d-18", 32, marks=pytest.mark.slow),
        ("dcgan", 64),
        ("dla-34", 64),
    ],
)
def test_activations_stay_of_order_one(name: str, image: int) -> None:
    graph = zoo.build(name, image=image).graph
    taps = [node.output for node in graph.nodes]
    tapped = Graph(
        graph.name, graph.inputs, tuple(Result(t, t) for t in taps), graph.nodes, graph.constants
    )
    session = reference_session(to_onnx(tapped).SerializeToString())
    for output, array in zip(taps, session.run(taps, _inputs(Network(name, graph))), strict=True):
        spread = float(np.sqrt((array.astype(np.float64) ** 2).mean()))
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


def test_every_network_has_a_function() -> None:
    functions = [getattr(zoo, name) for name in zoo.__all__ if name not in ("NAMES", "build")]
    assert len(functions) == len(zoo.NAMES)
    assert zoo.mobilenet_v2(batch=2, image=32).name == "mobilenet-v2"
    assert zoo.mobilenet_v2(batch=2, image=32).inputs[0].shape == (2, 3, 32, 32)
    assert zoo.dcgan(seed=1).name == "dcgan"


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
