"""Networks that nobody here chose the schedules for: torchvision's and transformers' own, seeded.

Configurations are pinned, weights are random, so that nothing is downloaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

_IMAGE: Final = (1, 3, 224, 224)
_VOCABULARY: Final = 1000
_DEVIATION: Final = 0.02
# Operators of torchvision that are written in C++.  No network here runs one, but the package does
# not load where its compiled part was made for another build of PyTorch, unless they have a name.
_COMPILED_OPERATORS: Final = (
    "nms",
    "qnms",
    "deform_conv2d",
    "_deform_conv2d_backward",
    *(
        f"{prefix}{kind}{suffix}"
        for kind in ("roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool")
        for prefix, suffix in (("", ""), ("_", "_backward"))
    ),
)


_KEPT: Final[list[torch.library.Library]] = []  # definitions end with their library


@dataclass(frozen=True, slots=True)
class WildModel:
    """A module in evaluation mode and its inputs, in the order of its parameters."""

    module: torch.nn.Module
    inputs: tuple[torch.Tensor, ...]


class _Only(torch.nn.Module):
    """A module of transformers, with tensors in and tensors out."""

    def __init__(self, inner: torch.nn.Module, names: tuple[str, ...], outputs: tuple[str, ...]):
        super().__init__()
        self.inner = inner
        self._names = names
        self._outputs = outputs

    def forward(self, *inputs: torch.Tensor) -> tuple[torch.Tensor, ...]:
        results = self.inner(**dict(zip(self._names, inputs, strict=True)))
        return tuple(results[name] for name in self._outputs)


def _image(name: str, size: int = _IMAGE[-1]) -> WildModel:
    """A classifier of torchvision."""
    from torchvision import models

    return WildModel(models.get_model(name, weights=None), (torch.randn(1, 3, size, size),))


def _dense(name: str, size: int) -> WildModel:
    """A network of torchvision that gives a map of classes."""
    from torchvision import models

    module = models.get_model(name, weights=None, weights_backbone=None, aux_loss=None)
    return WildModel(_Only(module, ("x",), ("out",)), (torch.randn(1, 3, size, size),))


def _pyramid() -> WildModel:
    """The backbone of detectors: ResNet-50 and its feature pyramid."""
    from torchvision.models.detection.backbone_utils import resnet_fpn_backbone

    backbone = resnet_fpn_backbone(backbone_name="resnet50", weights=None)
    module = _Only(backbone, ("x",), ("0", "1", "2", "3", "pool"))
    return WildModel(module, (torch.randn(1, 3, 320, 320),))


def _tokens(
    make: Callable[[Any], torch.nn.Module], tokens: int, output: str, inputs: tuple[str, ...]
) -> WildModel:
    """A network of transformers over token ids.

    Args:
        make: the module, of the package.
        tokens: length of a sequence.
        output: field of its result.
        inputs: its parameters; each gets ids.
    """
    import transformers

    ids = tuple(torch.randint(_VOCABULARY, (1, tokens)) for _ in inputs)
    return WildModel(_Only(make(transformers), inputs, (output,)), ids)


def _gpt2(tf: Any) -> torch.nn.Module:
    config = tf.GPT2Config(vocab_size=_VOCABULARY, n_layer=6, use_cache=False)
    return tf.GPT2LMHeadModel(config)  # type: ignore[no-any-return]


def _llama(tf: Any) -> torch.nn.Module:
    config = tf.LlamaConfig(
        vocab_size=_VOCABULARY,
        hidden_size=768,
        intermediate_size=2048,
        num_hidden_layers=6,
        num_attention_heads=12,
        num_key_value_heads=4,
        use_cache=False,
    )
    return tf.LlamaForCausalLM(config)  # type: ignore[no-any-return]


def _qwen2(tf: Any) -> torch.nn.Module:
    config = tf.Qwen2Config(
        vocab_size=_VOCABULARY,
        hidden_size=512,
        intermediate_size=1408,
        num_hidden_layers=4,
        num_attention_heads=8,
        num_key_value_heads=2,
        use_cache=False,
    )
    return tf.Qwen2ForCausalLM(config)  # type: ignore[no-any-return]


def _bloom(tf: Any) -> torch.nn.Module:
    config = tf.BloomConfig(
        vocab_size=_VOCABULARY, hidden_size=512, n_layer=4, n_head=8, use_cache=False
    )
    return tf.BloomForCausalLM(config)  # type: ignore[no-any-return]


def _mamba(tf: Any) -> torch.nn.Module:
    config = tf.MambaConfig(
        vocab_size=_VOCABULARY, hidden_size=256, num_hidden_layers=2, use_cache=False
    )
    return tf.MambaForCausalLM(config)  # type: ignore[no-any-return]


def _deberta_v2(tf: Any) -> torch.nn.Module:
    config = tf.DebertaV2Config(
        vocab_size=_VOCABULARY,
        hidden_size=768,
        intermediate_size=3072,
        num_hidden_layers=4,
        num_attention_heads=12,
        relative_attention=True,
        pos_att_type=["p2c", "c2p"],
        position_buckets=256,
        norm_rel_ebd="layer_norm",
        share_att_key=True,
    )
    return tf.DebertaV2Model(config)  # type: ignore[no-any-return]


def _distilbert(tf: Any) -> torch.nn.Module:
    return tf.DistilBertModel(tf.DistilBertConfig(vocab_size=_VOCABULARY))  # type: ignore[no-any-return]


def _t5(tf: Any) -> torch.nn.Module:
    config = tf.T5Config(vocab_size=_VOCABULARY, use_cache=False)
    return tf.T5ForConditionalGeneration(config)  # type: ignore[no-any-return]


def _whisper_encoder() -> WildModel:
    from transformers import WhisperConfig, WhisperModel

    encoder = WhisperModel(WhisperConfig()).get_encoder()
    module = _Only(encoder, ("input_features",), ("last_hidden_state",))
    return WildModel(module, (torch.randn(1, 80, 3000),))


def _wav2vec2() -> WildModel:
    from transformers import Wav2Vec2Config, Wav2Vec2Model

    module = Wav2Vec2Model(Wav2Vec2Config(num_hidden_layers=4))
    wrapped = _Only(module, ("input_values",), ("last_hidden_state",))
    return WildModel(wrapped, (torch.randn(1, 16000),))


def _segformer() -> WildModel:
    from transformers import SegformerConfig, SegformerForSemanticSegmentation

    module = _Only(
        SegformerForSemanticSegmentation(SegformerConfig()), ("pixel_values",), ("logits",)
    )
    return WildModel(module, (torch.randn(1, 3, 256, 256),))


def _mobilevit() -> WildModel:
    from transformers import MobileViTConfig, MobileViTForImageClassification

    module = _Only(
        MobileViTForImageClassification(MobileViTConfig()), ("pixel_values",), ("logits",)
    )
    return WildModel(module, (torch.randn(1, 3, 256, 256),))


def _mobilevit_v2() -> WildModel:
    from transformers import MobileViTV2Config, MobileViTV2Model

    module = _Only(MobileViTV2Model(MobileViTV2Config()), ("pixel_values",), ("last_hidden_state",))
    return WildModel(module, (torch.randn(1, 3, 256, 256),))


def _optical_flow() -> WildModel:
    """Twelve refinements of the motion between two images."""
    from torchvision.models.optical_flow import raft_small

    frames = tuple(torch.randn(1, 3, 128, 128) for _ in range(2))
    return WildModel(raft_small(weights=None), frames)


def _googlenet() -> WildModel:
    from torchvision import models

    module = models.googlenet(weights=None, aux_logits=False, init_weights=False)
    return WildModel(module, (torch.randn(*_IMAGE),))


_MAKERS: Final[dict[str, Callable[[], WildModel]]] = {
    "resnext50-32x4d": lambda: _image("resnext50_32x4d"),
    "regnet-y-800mf": lambda: _image("regnet_y_800mf"),
    "efficientnet-b0": lambda: _image("efficientnet_b0"),
    "mobilenet-v3-large": lambda: _image("mobilenet_v3_large"),
    "shufflenet-v2": lambda: _image("shufflenet_v2_x1_0"),
    "mnasnet-1.0": lambda: _image("mnasnet1_0"),
    "densenet-121": lambda: _image("densenet121"),
    "googlenet": _googlenet,
    "convnext-tiny": lambda: _image("convnext_tiny"),
    "vit-b-32": lambda: _image("vit_b_32"),
    "swin-t": lambda: _image("swin_t"),
    "fcn-resnet50": lambda: _dense("fcn_resnet50", 224),
    "deeplabv3-mobilenet": lambda: _dense("deeplabv3_mobilenet_v3_large", 256),
    "resnet50-fpn": _pyramid,
    "segformer-b0": _segformer,
    "mobilevit-small": _mobilevit,
    "whisper-encoder": _whisper_encoder,
    "wav2vec2": _wav2vec2,
    "gpt2-small": lambda: _tokens(_gpt2, 128, "logits", ("input_ids",)),
    "llama-small": lambda: _tokens(_llama, 128, "logits", ("input_ids",)),
    "distilbert": lambda: _tokens(_distilbert, 128, "last_hidden_state", ("input_ids",)),
    "t5-small": lambda: _tokens(_t5, 64, "logits", ("input_ids", "decoder_input_ids")),
    "maxvit-t": lambda: _image("maxvit_t"),
    "swin-v2-t": lambda: _image("swin_v2_t", 256),
    "mobilevit-v2": _mobilevit_v2,
    "raft-small": _optical_flow,
    "qwen2-small": lambda: _tokens(_qwen2, 128, "logits", ("input_ids",)),
    "bloom-small": lambda: _tokens(_bloom, 128, "logits", ("input_ids",)),
    "mamba-small": lambda: _tokens(_mamba, 32, "logits", ("input_ids",)),
    "deberta-v2-small": lambda: _tokens(_deberta_v2, 128, "last_hidden_state", ("input_ids",)),
}
NAMES: Final = tuple(_MAKERS)


def build(name: str) -> WildModel:
    """The model ``name`` with weights and inputs from seed 0, the same in every process."""
    _name_compiled_operators()
    torch.manual_seed(0)
    model = _MAKERS[name]()
    model.module.eval()
    _fill(model.module)
    _calibrate(model)
    model.module.eval()
    return model


def _fill(module: torch.nn.Module) -> None:
    """Layers that start at zero would hide what comes before them."""
    for layer in module.modules():
        if isinstance(layer, torch.nn.Linear) and not layer.weight.any():
            torch.nn.init.normal_(layer.weight, std=_DEVIATION)


def _calibrate(model: WildModel) -> None:
    """Statistics of batch-norms from two random images.

    Activations stay O(1): at any depth, denormals would distort timings, and small outputs errors.
    """
    norms = [m for m in model.module.modules() if isinstance(m, torch.nn.BatchNorm2d)]
    if not norms:
        return
    for norm in norms:
        norm.train()
        norm.momentum = 1.0
    with torch.no_grad():
        model.module(*(torch.randn(2, *data.shape[1:]) for data in model.inputs))


def _name_compiled_operators() -> None:
    try:
        import torchvision  # noqa: F401
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for operator in _COMPILED_OPERATORS:
            library.define(f"{operator}(Tensor data) -> Tensor")
        _KEPT.append(library)
