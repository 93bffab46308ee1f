"""torch's fused transformer encoder layer, which ONNX does not know, in operators that it does."""

from __future__ import annotations

from typing import Any


def encoder_layer(
    source: Any,
    embedding: int,
    heads: int,
    qkv_weight: Any,
    qkv_bias: Any,
    projection_weight: Any,
    projection_bias: Any,
    gelu: bool,
    norm_first: bool,
    epsilon: float,
    norm_weight_1: Any,
    norm_bias_1: Any,
    norm_weight_2: Any,
    norm_bias_2: Any,
    inner_weight: Any,
    inner_bias: Any,
    outer_weight: Any,
    outer_bias: Any,
    mask: Any = None,
    mask_type: int | None = None,
) -> Any:
    """``aten::_transformer_encoder_layer_fwd``: ``[batch, length, embedding]`` in and out.

    Args:
        source: ``[batch, length, embedding]``.
        embedding: width of the model.
        heads: of the attention.
        qkv_weight: ``[3 * embedding, embedding]``.
        qkv_bias: ``[3 * embedding]``.
        projection_weight: ``[embedding, embedding]``.
        projection_bias: ``[embedding]``.
        gelu: whether the activation is GELU; else ReLU.
        norm_first: normalise before attention and before the feed-forward part.
        epsilon: of both normalisations.
        norm_weight_1: ``[embedding]``.
        norm_bias_1: ``[embedding]``.
        norm_weight_2: ``[embedding]``.
        norm_bias_2: ``[embedding]``.
        inner_weight: ``[hidden, embedding]``.
        inner_bias: ``[hidden]``.
        outer_weight: ``[embedding, hidden]``.
        outer_bias: ``[embedding]``.
        mask: keys to ignore; what is not 0 counts, as in torch's kernel.
        mask_type: 0: ``[length, length]``; 1: ``[batch, length]``; 2: ``[batch, heads, length,
            length]``.
    """
    from torch.nn import functional

    hidden = _hidden(mask, mask_type)

    def norm_1(x: Any) -> Any:
        return functional.layer_norm(x, (embedding,), norm_weight_1, norm_bias_1, epsilon)

    def norm_2(x: Any) -> Any:
        return functional.layer_norm(x, (embedding,), norm_weight_2, norm_bias_2, epsilon)

    def attend(x: Any) -> Any:
        context = _attention(functional.linear(x, qkv_weight, qkv_bias), heads, hidden)
        return functional.linear(context, projection_weight, projection_bias)

    def feed_forward(x: Any) -> Any:
        inner = functional.linear(x, inner_weight, inner_bias)
        active = functional.gelu(inner) if gelu else functional.relu(inner)
        return functional.linear(active, outer_weight, outer_bias)

    if norm_first:
        middle = source + attend(norm_1(source))
        return middle + feed_forward(norm_2(middle))
    middle = norm_1(source + attend(source))
    return norm_2(middle + feed_forward(middle))


def _hidden(mask: Any, mask_type: int | None) -> Any:
    """The mask as truth values that broadcast to ``[batch, heads, length, length]``."""
    if mask is None:
        return None
    return mask.bool()[:, None, None, :] if mask_type == 1 else mask.bool()


def _attention(qkv: Any, heads: int, hidden: Any) -> Any:
    """``[batch, length, 3 * embedding]`` -> ``[batch, length, embedding]``."""
    batch, length, width = qkv.shape
    parts = qkv.view(batch, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)
    query, key, value = parts.unbind(0)
    scores = (query * query.shape[-1] ** -0.5) @ key.transpose(-2, -1)
    if hidden is not None:
        scores = scores.masked_fill(hidden, float("-inf"))
    context = scores.softmax(-1) @ value
    return context.transpose(1, 2).reshape(batch, length, width // 3)
