"""The backend interface, driven by ONNX's own test suite on a part of its cases."""

import unittest
from collections.abc import Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.backend.test import BackendTest
from onnx.backend.test.runner import BackendIsNotSupposedToImplementIt

import autosched as asd
from autosched.onnx_backend import AutoschedBackend, AutoschedBackendRep
from sketch.errors import AutoschedError

KERNELS = (
    "abs", "add_bcast", "averagepool_2d_default", "basic_conv_with_padding", "clip",
    "concat_2d_axis_0", "equal", "flatten_axis1", "gemm_all_attributes", "globalaveragepool",
    "leakyrelu", "matmul_3d", "maxpool_2d_default", "relu", "softmax_axis_1", "tanh",
    "transpose_all_permutations_3", "where_example",
)  # fmt: skip
ANY = (
    "adam", "affine_grid_2d", "ai_onnx_ml_label_encoder_string_int", "and2d",
    "argmax_default_axis_example", "bitshift_left_uint16", "bitwise_xor_ui8_bcast_4v3d",
    "cast_FLOAT_to_FLOAT8E4M3FN", "cast_FLOAT_to_INT4", "celu_expanded",
    "center_crop_pad_crop", "col2im", "compress_0", "constantofshape_int_shape_zero",
    "cumsum_1d_exclusive", "det_nd", "dft", "dropout_default",
    "dynamicquantizelinear_expanded", "einsum_batch_diagonal", "expand_dim_changed",
    "eyelike_with_dtype", "gathernd_example_int32", "gelu_tanh_1", "gridsample_bilinear",
    "gru_defaults", "hardmax_axis_0", "identity", "if", "isinf_positive",
    "layer_normalization_4d_axis1", "logsoftmax_axis_0_expanded", "loop11",
    "lstm_with_peepholes", "max_uint64", "mod_mixed_sign_float16", "nesterov_momentum",
    "nllloss_NC", "nonmaxsuppression_limit_output_size", "nonzero_example", "onehot_with_axis",
    "optional_has_element_empty_no_input_name_tensor_input", "pow_types_int64_float32",
    "qlinearmatmul_2D_uint8_float32", "quantizelinear",
    "range_int32_type_negative_delta_expanded", "reduce_mean_keepdims_example",
    "reduce_sum_empty_set", "regex_full_match_basic", "reshape_reordered_all_dims",
    "resize_downsample_scales_linear", "scan9_sum", "scatter_elements_with_axis",
    "slice_negative_axes", "split_zero_size_splits_opset18", "squeeze", "string_concat",
    "string_split_basic", "tfidfvectorizer_tf_only_bigrams_skip0", "top_k", "tril_zero",
    "unsqueeze_axis_1", "xor3d",
)  # fmt: skip


class Recording(AutoschedBackend):
    """Keeps what was prepared last, and what was refused."""

    last: Any = None

    @classmethod
    def prepare(cls, model: onnx.ModelProto, device: str = "CPU", **kwargs: Any) -> Any:
        cls.last = None
        try:
            cls.last = super().prepare(model, device, threads=1)
        except BackendIsNotSupposedToImplementIt as reason:
            cls.last = str(reason)
            raise
        return cls.last


def _small_cases(kind: Any, name: str, bases: Any, members: dict[str, Any]) -> None:
    """Makes the cases of an operator, without pages on them; and no pools of volumes, which take
    seconds and which no test here runs.
    """
    for key, export in members.items():
        if key.startswith("export") and "pool_3d" not in key:
            np.random.seed(0)
            export.__func__()


@pytest.fixture(scope="module")
def suite() -> Iterator[type[unittest.TestCase]]:
    with np.errstate(all="ignore"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("onnx.backend.test.case.base._Exporter.__init__", _small_cases)
        yield BackendTest(Recording, __name__).tests


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", KERNELS)
def test_cases_that_kernels_compute(suite: type[unittest.TestCase], name: str) -> None:
    suite(f"test_{name}_cpu").debug()
    assert isinstance(Recording.last, AutoschedBackendRep)
    assert Recording.last.module is not None
    assert Recording.last.module.program.host_steps == ()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ANY)
def test_cases_of_all_kinds(suite: type[unittest.TestCase], name: str) -> None:
    suite(f"test_{name}_cpu").debug()
    assert isinstance(Recording.last, AutoschedBackendRep), Recording.last


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("bernoulli", "draws new random numbers"),
        ("identity_sequence", "is no tensor"),
        ("sequence_map_identity_1_sequence", "is no tensor"),
        ("unique_sorted_without_axis", "shape depends on data"),
    ],
)
def test_what_is_not_supported_is_skipped_with_a_reason(
    suite: type[unittest.TestCase], name: str, reason: str
) -> None:
    suite(f"test_{name}_cpu").debug()
    assert isinstance(Recording.last, str)
    assert reason in Recording.last


RELU = helper.make_node("Relu", ["x"], ["y"])
X = np.array([[-1, 2, 3]], np.float32)


def _model(shape: tuple[int | str, ...]) -> onnx.ModelProto:
    graph = helper.make_graph(
        [RELU],
        "relu",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def test_the_module_is_a_backend() -> None:
    backend = asd.onnx_backend
    assert backend.supports_device("CPU")
    assert not backend.supports_device("CUDA:0")
    (y,) = backend.run_node(RELU, [X], opset_version=17)
    np.testing.assert_array_equal(y, np.maximum(X, 0))
    outputs = backend.run_model(_model((1, 3)), {"x": X})
    np.testing.assert_array_equal(outputs.y, np.maximum(X, 0))
    assert backend.is_compatible(_model((1, 3)))
    assert not backend.is_compatible(_model((1, 3)), "CUDA")
    with pytest.raises(BackendIsNotSupposedToImplementIt, match="device 'CUDA'"):
        backend.prepare(_model((1, 3)), "CUDA")


def test_open_shapes_are_those_of_the_inputs() -> None:
    backend = asd.onnx_backend
    model = _model(("N", 3))
    assert backend.is_compatible(model)
    ready = backend.prepare(model, threads=1)
    for rows in (2, 5):
        x = np.repeat(X, rows, axis=0)
        np.testing.assert_array_equal(ready.run([x])[0], np.maximum(x, 0))


def test_a_wrong_number_of_inputs_is_one_error() -> None:
    infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n"]) for name in "abc"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["c"])], "sum", infos[:2], infos[2:]
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    representation = AutoschedBackend.prepare(model)
    with pytest.raises(AutoschedError, match="1 inputs for the 2 of the model"):
        representation.run([np.ones(3, np.float32)])
    for count in (3, 4, 3):
        ones = np.ones(count, np.float32)
        assert representation.run([ones, ones])[0].tolist() == [2.0] * count
