"""Every pass keeps a graph's meaning; what each one is for."""

from collections.abc import Callable
from functools import cache

import numpy as np
import pytest

from autosched.graph.ir import Graph
from autosched.graph.ops.conv import Conv
from autosched.graph.ops.einsum import Einsum
from autosched.graph.ops.elementwise import BinaryOp, CastOp, Clip, Identity
from autosched.graph.ops.matmul import Dense, MatMul
from autosched.graph.ops.norm import BatchNorm, Normalize
from autosched.graph.ops.pooling import GlobalPool, Pool
from autosched.graph.ops.reduce import ReduceOp
from autosched.graph.ops.shape import Concat, Pad, Reshape, Transpose
from autosched.graph.ops.softmax import Softmax
from autosched.graph.optimize import PASSES, optimize
from autosched.graph.passes.batch_norm import fold_batch_norm
from autosched.graph.passes.bias import fold_bias
from autosched.graph.passes.clean_up import clean_up
from autosched.graph.passes.constant_folding import fold_constants
from autosched.graph.passes.dead_code import remove_dead_code
from autosched.graph.passes.matmul import matmul_to_dense
from autosched.graph.passes.padding import fold_padding
from tests.support.small_graphs import Net, assert_close, kinds_of, values_of

NCHW_TO_NHWC, NHWC_TO_NCHW = (0, 2, 3, 1), (0, 3, 1, 2)


def _residual() -> Graph:
    net = Net((2, 3, 9, 7))
    stem = net.unary(net.norm(net.conv(net.x, 8)))
    main = net.norm(net.conv(net.unary(net.norm(net.conv(stem, 8))), 8))
    total = net.unary(net.then(BinaryOp("add"), stem, main))
    pooled = net.then(GlobalPool("avg"), net.then(Pool("max", (3, 3), (2, 2), (1,) * 4), total))
    flat = net.then(Reshape((2, 8)), pooled)
    logits = net.then(Dense(), flat, net.random(8, 5), net.random(5))
    return net.finish({"logits": logits, "features": total})


def _flatten_before_dense() -> Graph:
    net = Net((2, 3, 6, 5))
    maps = net.then(Pool("avg", (2, 2), (2, 2)), net.conv(net.x, 4))
    flat = net.then(Identity(), net.then(Reshape((2, 4 * 3 * 2)), maps))
    return net.finish({"y": net.then(Dense(), flat, net.random(24, 5))})


def _flatten_as_output() -> Graph:
    net = Net((2, 3, 6, 5))
    return net.finish({"y": net.then(Reshape((2, 4 * 6 * 5)), net.conv(net.x, 4))})


def _channels_last_model() -> Graph:
    """As converters from TensorFlow write it: transposes around every convolution."""
    net = Net((2, 6, 5, 3))
    data = net.x
    for channels in (4, 6):
        maps = net.conv(net.then(Transpose(NHWC_TO_NCHW), data), channels)
        data = net.unary(net.then(Transpose(NCHW_TO_NHWC), maps))
    return net.finish({"y": data})


def _dimension_operators() -> Graph:
    net = Net((2, 4, 6, 5))
    a, b = net.conv(net.x, 4), net.conv(net.x, 3)
    joined = net.then(Concat(1), a, b, net.x)
    padded = net.then(Pad((0, 1, 2, 0), (0, 0, 1, 1), 0.5), joined)
    weights = net.then(Softmax(1), padded)
    gate = net.unary(net.then(ReduceOp("mean", (2, 3), True), weights), "sigmoid")
    scaled = net.then(BinaryOp("mul"), weights, gate)
    kept = net.then(ReduceOp("sum", (1,)), scaled)
    moved = net.then(Transpose((2, 0, 1)), net.then(ReduceOp("max", (2,)), scaled))
    return net.finish({"kept": kept, "moved": moved, "gate": gate})


def _broadcasts() -> Graph:
    net = Net((2, 4, 6, 5))
    maps = net.conv(net.x, 4)
    row = net.then(BinaryOp("add"), maps, net.random(5))
    channel = net.then(BinaryOp("mul"), net.random(4, 1, 1), row)
    scalar = net.then(BinaryOp("sub"), channel, net.random(1))
    plane = net.then(ReduceOp("sum", (0, 1)), net.x)  # [6, 5], computed
    mixed = net.then(BinaryOp("max"), scalar, net.unary(plane))
    return net.finish({"y": net.then(BinaryOp("add"), mixed, net.x)})


def _split_reshape() -> Graph:
    """A channel shuffle: reshapes that need the model's own layout."""
    net = Net((2, 6, 4, 3))
    maps = net.conv(net.x, 6, groups=3)
    split = net.then(Reshape((2, 3, 2, 4, 3)), maps)
    shuffled = net.then(Reshape((2, 6, 4, 3)), net.then(Transpose((0, 2, 1, 3, 4)), split))
    return net.finish({"y": net.conv(net.unary(shuffled), 4)})


def _computed_weight() -> Graph:
    net = Net((4, 3, 3, 3))
    weight = net.unary(net.x, "tanh")
    return net.finish({"y": net.then(Conv(), net.random(1, 3, 8, 8), weight)})


def _norms_alone() -> Graph:
    net = Net((3, 4, 5, 6))
    first = net.norm(net.x)
    shared = net.conv(first, 4)
    both = net.then(BinaryOp("add"), net.norm(shared), shared)
    return net.finish({"y": net.norm(net.unary(both))})


def _redundant() -> Graph:
    net = Net((2, 3, 4, 1))
    same = net.then(CastOp("float32"), net.then(Identity(), net.x))
    view = net.then(Reshape((4, 6)), net.then(Reshape((24,)), same))
    back = net.then(Transpose((0, 3, 2, 1)), net.then(Transpose((0, 3, 2, 1)), same))
    shifted = net.then(Transpose((0, 1, 3, 2)), back)
    clipped = net.then(Clip(0.0, None), net.then(Clip(None, None), shifted))
    return net.finish({"view": view, "clipped": clipped, "input": net.x, "copy": same})


def _matrices() -> Graph:
    net = Net((2, 3, 8))
    hidden = net.then(MatMul(), net.x, net.random(8, 6))
    biased = net.unary(net.then(BinaryOp("add"), hidden, net.random(6)))
    scores = net.then(MatMul(), biased, net.then(Transpose((0, 2, 1)), biased))
    flat = net.then(Reshape((6, 6)), biased)
    out = net.then(BinaryOp("add"), net.random(1, 4), net.then(MatMul(), flat, net.random(6, 4)))
    return net.finish({"scores": scores, "out": out})


def _padded() -> Graph:
    net = Net((2, 3, 6, 5))
    maps = net.then(Pad((0, 0, 1, 2), (0, 0, 0, 1)), net.x)
    ones = net.then(Pad((0, 0, 1, 1), (0, 0, 1, 1), 1.0), net.x)
    channels = net.then(Pad((0, 1, 0, 0), (0, 0, 0, 0)), net.x)
    total = net.then(ReduceOp("sum", (2, 3)), maps)
    outputs = [net.conv(maps, 4), net.conv(ones, 4), net.conv(channels, 4), total]
    return net.finish({f"y{index}": value for index, value in enumerate(outputs)})


def _attention() -> Graph:
    net = Net((6, 24))
    heads = net.then(Reshape((1, 6, 3, 8)), net.x)
    query, value = (net.then(Transpose((0, 2, 1, 3)), heads) for _ in range(2))
    scores = net.then(MatMul(), query, net.then(Transpose((0, 2, 3, 1)), heads))
    mixed = net.then(MatMul(), net.then(Softmax(-1), scores), value)
    back = net.then(Transpose((0, 2, 1, 3)), mixed)
    # a product that reads the transposed result of another, on either side
    rows = net.then(MatMul(), net.then(Transpose((0, 2, 1, 3)), heads), net.random(8, 5))
    turned = net.then(Transpose((0, 1, 3, 2)), net.then(MatMul(), query, net.random(1, 3, 8, 5)))
    chain = net.then(MatMul(), turned, rows)
    return net.finish({"back": back, "value": value, "mixed": mixed, "chain": chain})


def _plain_products() -> Graph:
    """Similarities of rows, next to a product with a transposed weight."""
    net = Net((6, 24))
    half = net.unary(net.x)
    turned = net.then(Transpose((1, 0)), half)
    weight = net.then(Transpose((1, 0)), net.random(5, 24))
    alike = net.then(MatMul(), net.x, turned)
    return net.finish({"alike": alike, "dense": net.then(MatMul(), half, weight)})


GRAPHS: tuple[Callable[[], Graph], ...] = (
    _residual, _flatten_before_dense, _flatten_as_output, _channels_last_model,
    _dimension_operators, _broadcasts, _split_reshape, _computed_weight, _norms_alone, _redundant,
    _matrices, _padded, _attention, _plain_products,
)  # fmt: skip


@cache
def made(make: Callable[[], Graph]) -> Graph:
    return make()


@cache
def values_as_made(make: Callable[[], Graph]) -> dict[str, np.ndarray]:
    return values_of(made(make))


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_every_pass_keeps_values_and_signature(make: Callable[[], Graph]) -> None:
    original = graph = make()
    expected = values_of(graph)
    for apply in PASSES:
        graph = apply(graph)
        assert (graph.inputs, graph.outputs) == (original.inputs, original.outputs)
        assert_close(values_of(graph), expected, apply.__name__)


@pytest.mark.parametrize("apply", dict.fromkeys(PASSES), ids=lambda apply: apply.__name__)
@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_every_pass_stands_alone(
    make: Callable[[], Graph], apply: Callable[[Graph], Graph]
) -> None:
    assert_close(values_of(apply(made(make))), values_as_made(make), apply.__name__)


@pytest.mark.parametrize("make", GRAPHS, ids=lambda make: make.__name__)
def test_optimizing_twice_gains_nothing(make: Callable[[], Graph]) -> None:
    once = kinds_of(optimize(make()))
    twice = kinds_of(optimize(optimize(make())))
    free = ("reshape",)
    assert sorted(k for k in twice if k not in free) == sorted(k for k in once if k not in free)


def test_batch_norms_vanish_into_convolutions() -> None:
    assert "batch_norm" not in kinds_of(fold_batch_norm(_residual()))
    folded = fold_batch_norm(_residual()).nodes[0]
    assert folded.origins == ("conv2d", "batch_norm")
    assert len(folded.inputs) == 3


def test_batch_norms_without_a_convolution_become_scale_and_shift() -> None:
    kinds = kinds_of(fold_batch_norm(_norms_alone()))
    assert "batch_norm" not in kinds
    assert kinds.count("mul") == 3


def _infinite(net: Net, *shape: int) -> str:
    array = np.ones(shape, np.float32)
    array.reshape(-1)[0] = np.inf
    return net.constant(net.unique("w"), array)


@pytest.mark.parametrize("place", ["variance", "mean", "weight"])
def test_batch_norms_stay_where_their_parameters_would_not_be_finite(place: str) -> None:
    """With a variance of -epsilon the scale is infinite: x * inf - mean * inf is not a number."""
    net = Net((1, 3, 4, 4))
    weight = _infinite(net, 2, 3, 3, 3) if place == "weight" else net.random(2, 3, 3, 3)
    data = net.then(Conv(), net.x, weight)
    statistics = {"mean": net.random(2), "variance": net.positive(2)}
    if place == "variance":
        no_spread = np.array([-1e-5, 1], np.float32)
        statistics["variance"] = net.constant("no_spread", no_spread)
    elif place == "mean":
        statistics["mean"] = _infinite(net, 2)
    epsilon = float(np.float32(1e-5))
    norm = net.then(BatchNorm(epsilon), data, net.random(2), net.random(2), *statistics.values())
    graph = net.finish({"y": norm})
    folded = fold_batch_norm(graph)
    assert "conv2d" in kinds_of(folded) and len(folded.nodes) > 1
    expected = values_of(graph)["y"]
    assert not np.isfinite(expected[:, 0]).any() and np.isfinite(expected[:, 1]).all()
    np.testing.assert_allclose(values_of(folded)["y"], expected, rtol=1e-6)
    np.testing.assert_allclose(values_of(optimize(graph))["y"], expected, rtol=1e-6)


def test_padding_stays_before_an_infinite_weight() -> None:
    net = Net((1, 2, 4, 4))
    maps = net.then(Pad((0, 0, 1, 1), (0, 0, 1, 1)), net.x)
    graph = net.finish({"y": net.then(Conv(), maps, _infinite(net, 2, 2, 3, 3))})
    assert "pad" in kinds_of(fold_padding(graph))
    expected = values_of(graph)["y"]
    assert np.isnan(expected[0, 0, 0]).all()  # the infinite tap meets the padding
    np.testing.assert_allclose(values_of(optimize(graph))["y"], expected, rtol=1e-6)


def test_residual_network_needs_transposes_at_its_edges_only() -> None:
    kinds = kinds_of(optimize(_residual()))
    assert kinds.count("transpose") == 2  # the input, and the output `features`
    assert kinds[0] == "transpose"


def test_flatten_is_absorbed_by_the_dense_weight() -> None:
    assert kinds_of(optimize(_flatten_before_dense())).count("transpose") == 1


def test_flatten_as_output_needs_the_models_order() -> None:
    assert kinds_of(optimize(_flatten_as_output())).count("transpose") == 2


def test_channels_last_models_lose_all_transposes() -> None:
    assert kinds_of(optimize(_channels_last_model())) == ["conv2d", "relu", "conv2d", "relu"]


def test_dimension_operators_pass_the_permutation_on() -> None:
    kinds = kinds_of(optimize(_dimension_operators()))
    assert kinds.count("transpose") <= 3  # x, kept, moved: [c] stays a view for gate


def test_constants_fold_and_keep_their_dtype() -> None:
    net = Net((3,))
    total = net.then(
        BinaryOp("add"), net.then(BinaryOp("mul"), net.random(3), net.random(3)), net.random(1)
    )
    graph = fold_constants(net.finish({"y": net.then(BinaryOp("add"), net.x, total)}))
    assert kinds_of(graph) == ["add"]
    assert graph.constants[total].dtype == np.float32


def test_dead_code_goes_and_live_code_is_untouched() -> None:
    net = Net((2, 3))
    live = net.unary(net.x)
    net.then(BinaryOp("add"), live, net.random(3))
    graph = remove_dead_code(net.finish({"y": live}))
    assert kinds_of(graph) == ["relu"]
    assert not graph.constants
    assert remove_dead_code(graph) is graph


def test_clean_up_leaves_views_and_one_relu() -> None:
    kinds = kinds_of(clean_up(_redundant()))
    assert "relu" in kinds
    assert not {"identity", "cast", "clip"} & set(kinds)
    graph = optimize(_redundant())
    assert sorted(kinds_of(graph)) == ["relu", "reshape", "reshape"]
    assert [result.value for result in graph.results[2:]] == ["x", "x"]


def test_bias_is_recognised_on_either_side() -> None:
    graph = fold_bias(matmul_to_dense(_matrices()))
    dense = [node for node in graph.nodes if isinstance(node.op, Dense)]
    assert [len(node.inputs) for node in dense] == [3, 3]


def test_only_zero_padding_of_maps_folds() -> None:
    graph = remove_dead_code(fold_padding(_padded()))
    assert kinds_of(graph).count("pad") == 3  # one is still read by the sum
    assert graph.producers["conv2d"].op == Conv(padding=(2, 3, 1, 2))


def test_what_follows_a_product_works_on_its_rows() -> None:
    net = Net((2, 3, 8))
    product = net.then(MatMul(), net.x, net.random(8, 8))
    biased = net.then(BinaryOp("add"), net.random(1, 1, 8), product)
    added = net.then(BinaryOp("add"), net.unary(biased), net.x)
    normal = net.then(Softmax(-1), net.then(Normalize((2,)), added))
    scaled = net.then(BinaryOp("mul"), normal, net.random(1, 1, 1))
    other = net.then(BinaryOp("mul"), scaled, net.random(3, 1))  # differs by row
    graph = net.finish({"y": scaled, "z": other, "again": product})
    dense = matmul_to_dense(graph)
    assert_close(values_of(dense), values_of(graph), "rows")
    on_rows = [n.op.kind for n in dense.nodes if dense.types[n.output].shape == (6, 8)]
    assert on_rows == ["reshape", "dense", "add", "relu", "add", "normalize", "softmax", "mul"]
    assert kinds_of(dense).count("reshape") == 3 and kinds_of(dense).count("mul") == 2


def test_views_between_dense_layers_are_rows_already() -> None:
    """As models have them whose products take matrices alone."""

    def layers(net: Net, data: str, viewed: bool) -> list[str]:
        def dense(data: str, *shape: int) -> str:
            if not viewed:
                return net.then(MatMul(), data, net.random(*shape))
            rows = net.then(Reshape((6, shape[0])), data)
            rows = net.then(Dense(), rows, net.random(*shape))
            return net.then(Reshape((2, 3, shape[1])), rows)

        first = dense(data, 5, 8)
        total = net.then(BinaryOp("add"), dense(net.unary(first), 8, 8), first)
        normal = net.then(Normalize((2,), 1e-5), total)
        return [dense(normal, 8, 4), normal]

    found = []
    for viewed in (True, False):
        net = Net((2, 3, 5))
        results = layers(net, net.x, viewed)
        graph = net.finish(dict(zip("yz", results, strict=True)))
        rows = matmul_to_dense(graph)
        assert_close(values_of(rows), values_of(graph), "rows")
        found.append([(node.op, rows.types[node.output]) for node in rows.nodes])
    assert found[0] == found[1]


def test_attention_needs_no_transpose() -> None:
    net = Net((6, 24))
    heads = net.then(Reshape((1, 6, 3, 8)), net.x)
    rows = net.then(Transpose((0, 2, 1, 3)), heads)
    scores = net.then(MatMul(), rows, net.then(Transpose((0, 2, 3, 1)), heads))
    mixed = net.then(MatMul(), net.then(Softmax(-1), scores), rows)
    back = net.then(Reshape((6, 24)), net.then(Transpose((0, 2, 1, 3)), mixed))
    graph = optimize(net.finish({"y": back}))
    assert kinds_of(graph) == ["reshape", "einsum", "softmax", "einsum", "reshape"]
    products = [node.op for node in graph.nodes if isinstance(node.op, Einsum)]
    assert [op.labels for op in products] == [("AiBk", "AjBk"), ("ABik", "AkBj")]
    assert [op.output for op in products] == ["ABij", "AiBj"]


def test_plain_products_read_what_is_transposed_where_it_is_no_weight() -> None:
    graph = optimize(_plain_products())
    assert "transpose" not in kinds_of(graph)
    assert sum(isinstance(node.op, Einsum) for node in graph.nodes) == 1
    assert sum(isinstance(node.op, Dense) for node in graph.nodes) == 1
