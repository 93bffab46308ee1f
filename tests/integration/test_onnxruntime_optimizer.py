"""Models that onnxruntime's optimisers rewrote give the results of the models as exported."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import autosched as asd
from tests.support.lazily import lazily
from tests.support.onnx_sessions import reference_session

onnx = lazily("onnx")
torch = lazily("torch")
transformers = lazily("transformers")
runtime = lazily("onnxruntime")
optimizer = lazily("onnxruntime.transformers.optimizer")
quantization = lazily("onnxruntime.quantization")

WORDS, ROWS, HIDDEN, HEADS, FEATURES = 97, 9, 48, 4, 80


def bert() -> Any:
    config = transformers.BertConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=HEADS,
        intermediate_size=FEATURES, max_position_embeddings=32, attn_implementation="eager",
    )  # fmt: skip
    return transformers.BertModel(config)


def gpt2() -> Any:
    config = transformers.GPT2Config(
        vocab_size=WORDS, n_embd=HIDDEN, n_layer=2, n_head=HEADS, n_positions=32, use_cache=False,
        attn_implementation="eager",
    )  # fmt: skip
    return transformers.GPT2LMHeadModel(config)


def llama() -> Any:
    config = transformers.LlamaConfig(
        vocab_size=WORDS, hidden_size=HIDDEN, num_hidden_layers=2, num_attention_heads=HEADS,
        num_key_value_heads=2, intermediate_size=FEATURES, max_position_embeddings=32,
        use_cache=False, attn_implementation="eager",
    )  # fmt: skip
    return transformers.LlamaForCausalLM(config)


MODELS = {
    "bert": (bert, "token_type_ids"),
    "gpt2": (gpt2, "position_ids"),
    "llama": (llama, "position_ids"),
}


def named(model: Any, names: list[str]) -> Any:
    """A model that takes its inputs in order, and returns its first output."""

    class Named(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, *inputs: Any) -> Any:
            return self.model(**dict(zip(names, inputs, strict=True)))[0]

    return Named()


@pytest.fixture(
    scope="module",
    params=["bert", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("gpt2", "llama"))],
)
def exported(request: Any, tmp_path_factory: Any) -> tuple[str, Path, dict[str, Any]]:
    """Kind, file, inputs."""
    make, last = MODELS[request.param]
    torch.manual_seed(0)
    names = ["input_ids", "attention_mask", last]
    words = torch.randint(0, WORDS, (2, ROWS))
    mask = torch.ones(2, ROWS, dtype=torch.int64)
    mask[1, 6:] = 0
    third = torch.zeros_like(words) if last == "token_type_ids" else torch.arange(ROWS).repeat(2, 1)
    path = tmp_path_factory.mktemp("models") / f"{request.param}.onnx"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.onnx.export(
            named(make().eval(), names), (words, mask, third), path, input_names=names,
            output_names=["y"], opset_version=14, dynamo=False,
            dynamic_axes={name: {0: "batch", 1: "rows"} for name in names},
        )  # fmt: skip
    feed = {n: a.numpy() for n, a in zip(names, (words, mask, third), strict=True)}
    return request.param, path, feed


def optimised(kind: str, source: Path, target: Path, how: str) -> None:
    if how == "session":
        options = runtime.SessionOptions()
        options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
        options.optimized_model_filepath = str(target)
        options.intra_op_num_threads = 1
        runtime.InferenceSession(source, options, providers=["CPUExecutionProvider"])
        return
    family = "bert" if kind == "bert" else "gpt2"
    made = optimizer.optimize_model(
        str(source), model_type=family, num_heads=HEADS, hidden_size=HIDDEN, opt_level=0
    )
    made.save_model_to_file(str(target))


@pytest.mark.parametrize("how", ["session", "script"])
def test_results_are_those_of_the_exported_model(
    exported: tuple[str, Path, dict[str, Any]], how: str, tmp_path: Path
) -> None:
    kind, source, feed = exported
    (expected,) = reference_session(source.read_bytes()).run(None, feed)
    target = tmp_path / "optimised.onnx"
    optimised(kind, source, target, how)
    written = onnx.load(target)
    assert any(node.domain == "com.microsoft" for node in written.graph.node)
    shapes = {name: array.shape for name, array in feed.items()}
    compiled = asd.compile(asd.from_onnx(target, shapes=shapes), effort="none")
    types = {value.name: value.dtype for value in compiled.inputs}
    (found,) = compiled.run({n: a.astype(types[n]) for n, a in feed.items()}).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("exported", ["bert"], indirect=True)
def test_quantised_attention(exported: tuple[str, Path, dict[str, Any]], tmp_path: Path) -> None:
    """The script, then the dynamic quantiser, then a session: QAttention and products of bytes."""
    kind, source, feed = exported
    fused, narrow, target = (tmp_path / f"{name}.onnx" for name in ("fused", "narrow", "target"))
    optimised(kind, source, fused, "script")
    quantization.quantize_dynamic(
        fused, narrow, weight_type=quantization.QuantType.QInt8,
        extra_options={"DefaultTensorType": onnx.TensorProto.FLOAT},
    )  # fmt: skip
    optimised(kind, narrow, target, "session")
    written = {node.op_type for node in onnx.load(target).graph.node}
    assert {"QAttention", "QEmbedLayerNormalization", "DynamicQuantizeMatMul"} <= written
    network = asd.from_onnx(target, shapes={name: array.shape for name, array in feed.items()})
    given = {value.name: feed[value.name].astype(value.dtype) for value in network.inputs}
    (expected,) = reference_session(target.read_bytes()).run(None, given)
    (found,) = asd.compile(network, effort="none").run(given).values()
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
