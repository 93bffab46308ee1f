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


# Published numbers of parameters; vgg-16's first dense layer is as large as its image.
@pytest.mark.parametrize(
    ("name", "shape", "classes", "parameters", "of_order_one"),
    [
        pytest.param(
            *("resnet-18", (3, 3, 40, 40), 1000, 11_689_512, True), marks=pytest.mark.slow
        ),
        pytest.param(
            *("resnet-34", (1, 3, 32, 32), 1000, 21_797_672, True), marks=pytest.mark.slow
        ),
        pytest.param(
            *("resnet-50", (1, 3, 33, 33), 1000, 25_557_032, True), marks=pytest.mark.slow
        ),
        pytest.param(*("vgg-16", (1, 3, 32, 32), 1000, 37_694_248, False), marks=pytest.mark.slow),
        pytest.param(
            *("inception-v3", (1, 3, 75, 75), 1000, 23_834_568, True), marks=pytest.mark.slow
        ),
        ("mobilenet-v1", (2, 3, 33, 33), 1000, 4_231_976, True),
        ("mobilenet-v2", (2, 3, 33, 33), 1000, 3_504_872, True),
        ("squeezenet-1.1", (2, 3, 34, 34), 1000, 1_235_496, True),
        pytest.param(
            *("resnet3d-18", (1, 3, 16, 18, 18), 400, 33_371_472, True), marks=pytest.mark.slow
        ),
        ("mlp", (3, 256), 10, 0, False),
    ],
)
def test_classifiers(
    name: str, shape: tuple[int, ...], classes: int, parameters: int, of_order_one: bool
) -> None:
    """One network answers all questions: drawing its weights takes longest."""
    network = zoo.build(name, shape[0], image=16 if name == "mlp" else shape[-1])
    assert [(v.name, v.shape) for v in network.inputs] == [("data", shape)]
    assert [(v.name, v.shape) for v in network.outputs] == [("logits", (shape[0], classes))]
    if parameters:
        assert _parameters(network) == parameters
    _assert_agrees_with_onnxruntime(network, of_order_one)


def _parameters(network: Network) -> int:
    """Numbers that training would change."""
    statistics = (".mean", ".variance")
    weights = network.graph.constants
    drawn = [a for n, a in weights.items() if a.ndim and not n.endswith(statistics)]
    return sum(a.size for a in drawn if a.dtype == np.float32)


def _assert_agrees_with_onnxruntime(network: Network, of_order_one: bool = False) -> None:
    graph, inputs = network.graph, _inputs(network)
    taps = [node.output for node in graph.nodes] if of_order_one else []
    names = [v.name for v in network.outputs]
    results = tuple(Result(t, t) for t in taps if t not in names)
    tapped = Graph(
        graph.name, graph.inputs, (*graph.results, *results), graph.nodes, graph.constants
    )
    session = reference_session(to_onnx(tapped).SerializeToString())
    found = dict(
        zip([v.name for v in session.get_outputs()], session.run(None, inputs), strict=True)
    )
    values = evaluate(optimize(graph), inputs)
    for name in names:
        error = np.abs(values[name] - found[name]).max() / np.abs(found[name]).max()
        assert error <= 1e-4, name
    for tap in taps:
        _assert_of_order_one(tap, found.get(tap, found[names[0]]))


def _assert_of_order_one(name: str, array: np.ndarray) -> None:
    spread = float(np.sqrt((array.astype(np.float64) ** 2).mean()))
    assert 0.05 < spread < 20, f"{name}: root mean square {spread}"
    small = np.abs(array[array != 0])
    assert small.min() > 1e-30


def test_dcgan() -> None:
    network = zoo.build("dcgan", batch=2)
    assert [(v.name, v.shape) for v in network.inputs] == [("latent", (2, 100, 1, 1))]
    assert [(v.name, v.shape) for v in network.outputs] == [("image", (2, 3, 64, 64))]
    assert _parameters(network) == 3_576_704
    _assert_agrees_with_onnxruntime(network, of_order_one=True)
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


def test_a_layer_of_bert_is_nine_kernels() -> None:
    kernels = [subgraph.name.rpartition(".")[0] for subgraph in extract(_tiny_bert(1, 6)).subgraphs]
    layer = [
        "dense_bias", "einsum_div", "softmax", "einsum", "dense_bias_add", "normalize_mul_add",
        "dense_bias_mul_erf_add_mul_mul", "dense_bias_add", "normalize_mul_add",
    ]  # fmt: skip
    assert kernels[2 : 2 + 2 * len(layer)] == layer * 2


@pytest.mark.slow
def test_dla() -> None:
    network = zoo.build("dla-34", image=64)
    shapes = {v.name: v.shape for v in network.outputs}
    assert shapes == {"hm": (1, 80, 16, 16), "wh": (1, 2, 16, 16), "reg": (1, 2, 16, 16)}
    # the published backbone's 15,742,104 less its classifier, the upward path, the heads
    assert _parameters(network) == 15_742_104 - 513_000 + 2_225_920 + 464_724
    _assert_agrees_with_onnxruntime(network, of_order_one=True)


@pytest.mark.slow
def test_dla_of_large_images() -> None:
    assert zoo.build("dla-34", image=608).outputs[0].shape == (1, 80, 152, 152)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "parameters"), [("bert-base", 109_482_240), ("vgg-16", 138_357_544)]
)
def test_parameters_of_large_networks(name: str, parameters: int) -> None:
    assert _parameters(zoo.build(name)) == parameters


@pytest.mark.slow
def test_activations_of_vgg() -> None:
    _assert_agrees_with_onnxruntime(zoo.build("vgg-16", image=64), of_order_one=True)


def _weights(network: Network) -> dict[str, np.ndarray]:
    return dict(network.graph.constants)


def test_weights_follow_from_the_seed_alone() -> None:
    first = _weights(zoo.build("squeezenet-1.1", image=34))
    again = _weights(zoo.build("squeezenet-1.1", batch=4, image=64))
    other = _weights(zoo.build("squeezenet-1.1", image=34, seed=1))
    assert first.keys() == again.keys() == other.keys()
    assert all(np.array_equal(first[name], again[name]) for name in first)
    assert not any(np.array_equal(first[name], other[name]) for name in first if "weight" in name)


def test_default_sizes() -> None:
    assert zoo.resnet18().inputs[0].shape == (1, 3, 224, 224)
    assert zoo.build("mlp").inputs[0].shape == (1, 784)


def test_every_network_has_a_function() -> None:
    functions = [getattr(zoo, name) for name in zoo.__all__ if name not in ("NAMES", "build")]
    assert len(functions) == len(zoo.NAMES)
    squeezenet = zoo.squeezenet(batch=2, image=34)
    assert squeezenet.name == "squeezenet-1.1" and squeezenet.inputs[0].shape == (2, 3, 34, 34)
    assert zoo.dcgan(seed=1).name == "dcgan"


@pytest.mark.parametrize(
    ("wrong", "guess"), [("resnet18", "did you mean resnet-18?"), ("quux", "zoo | known: ")]
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


@pytest.mark.parametrize(
    ("name", "image"),
    [("squeezenet-1.1", 34), pytest.param("centernet", 32, marks=pytest.mark.slow)],
)
def test_images_may_have_their_channels_last(name: str, image: int) -> None:
    first, last = (zoo.build(name, 2, image, layout=layout) for layout in ("NCHW", "NHWC"))
    assert last.inputs[0].shape == (2, image, image, 3)
    data = _inputs(first)["data"]
    expected = evaluate(first.graph, {"data": data})
    values = evaluate(last.graph, {"data": data.transpose(0, 2, 3, 1)})
    for output, value in expected.items():
        order = (0, 2, 3, 1) if value.ndim == 4 else (0, 1)
        np.testing.assert_array_equal(values[output], value.transpose(order))
    names = [call.name for call in extract(last).subgraphs]
    assert not any(name.startswith("transpose") for name in names)


@pytest.mark.slow
def test_videos_may_have_their_channels_last() -> None:
    network = zoo.build("resnet3d-18", image=16, layout="NHWC")
    assert network.inputs[0].shape == (1, 16, 16, 16, 3)


def test_an_unknown_layout_is_refused() -> None:
    with pytest.raises(GraphError, match="no layout is called 'CHWN'"):
        zoo.build("mlp", layout="CHWN")  # type: ignore[arg-type]
