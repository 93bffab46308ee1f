"""Products, attention, and the blocks of transformers and other networks of sequences."""

from __future__ import annotations

from typing import Any, Final

import torch
import torch.nn.functional as F

from benchmarks.small_modules.case import Case, case, normal, positive, share, weight, whole

_ROWS: Final = (256, 1024)
_TOKENS: Final = (1, 256, 512)
_HEADS: Final = (1, 8, 256, 64)


def _products() -> list[Case]:
    return [
        case("matmul", lambda x, y: x @ y.T, normal(*_ROWS), normal(*_ROWS)),
        case("matmul_narrow", lambda x, y: x @ y, normal(2048, 64), normal(64, 8)),
        case("matmul_tall", lambda x, y: x.T @ y, normal(4096, 32), normal(4096, 32)),
        case("matrix_vector", lambda x, y: x @ y, normal(*_ROWS), normal(1024)),
        case("vector_matrix", lambda x, y: x @ y, normal(256), normal(*_ROWS)),
        case("outer", torch.outer, normal(1000), normal(1000)),
        case("batched", torch.bmm, normal(12, 128, 64), normal(12, 64, 128)),
        case("batched_transposed", lambda x, y: x.transpose(1, 2) @ y, normal(16, 64, 64),
             normal(16, 64, 64)),
        case("batched_tiny", torch.bmm, normal(2000, 4, 4), normal(2000, 4, 4)),
        case("add_matmul", lambda b, x, y: torch.addmm(b, x, y.T), normal(256), normal(*_ROWS),
             normal(*_ROWS)),
        case("linear_relu", lambda x, w, b: F.relu(F.linear(x, w, b)), normal(*_TOKENS),
             weight(512, 512), weight(512)),
        case("bilinear", lambda x, y, w: F.bilinear(x, y, w), normal(128, 32), normal(128, 32),
             weight(16, 32, 32)),
        case("gram", lambda x: x.flatten(2) @ x.flatten(2).transpose(1, 2) / 3136,
             normal(1, 64, 56, 56)),
        case("bilinear_pooling", lambda x, y: torch.einsum("bchw,bdhw->bcd", x, y),
             normal(1, 32, 28, 28), normal(1, 64, 28, 28)),
        case("kronecker", torch.kron, normal(32, 32), normal(32, 32)),
        case("cross", lambda x, y: torch.cross(x, y, 1), normal(5000, 3), normal(5000, 3)),
        case("determinants_3x3", torch.linalg.det, normal(1000, 3, 3)),
        case("distances", torch.cdist, normal(*_ROWS), normal(*_ROWS)),
        case("nearest_center", lambda x, c: torch.cdist(x, c).argmin(1), normal(2000, 32),
             normal(64, 32)),
        case("distance_softmax", lambda x, y: (-(x[:, None] - y[None]).pow(2).sum(-1)).softmax(-1),
             normal(256, 16), normal(256, 16)),
        case("similarities", lambda x, y: F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).T,
             normal(64, 512), normal(1000, 512)),
        case("box_overlaps", _overlaps, normal(300, 4), normal(300, 4)),
        case("log_mel", lambda x, f: torch.log(x @ f + 1e-6), positive(1, 200, 257),
             positive(257, 80)),
    ]  # fmt: skip


def _overlaps(p: Any, q: Any) -> Any:
    low = torch.maximum(p[:, None, :2], q[None, :, :2])
    sides = (torch.minimum(p[:, None, 2:], q[None, :, 2:]) - low).clamp(min=0)
    common = sides[..., 0] * sides[..., 1]
    first, second = ((b[:, 2] - b[:, 0]) * (b[:, 3] - b[:, 1]) for b in (p, q))
    return common / (first[:, None] + second[None] - common + 1e-6)


def _attention() -> list[Case]:
    three = normal(*_HEADS), normal(*_HEADS), normal(*_HEADS)
    window = normal(64, 3, 49, 32)
    narrow = normal(1, 8, 196, 32)
    return [
        case("attention", F.scaled_dot_product_attention, *three),
        case("attention_causal",
             lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *three),
        case("attention_masked", F.scaled_dot_product_attention, *three, normal(1, 1, 256, 256)),
        case("attention_grouped",
             lambda q, k, v: F.scaled_dot_product_attention(
                 q, k.repeat_interleave(4, 1), v.repeat_interleave(4, 1)),
             normal(*_HEADS), normal(1, 2, 256, 64), normal(1, 2, 256, 64)),
        case("attention_windows",
             lambda q, k, v, b: ((q @ k.transpose(-1, -2)) * 0.18 + b).softmax(-1) @ v, window,
             window, window, normal(1, 3, 49, 49)),
        case("attention_cosine",
             lambda q, k, v: ((F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2))
                              * 10).softmax(-1) @ v, narrow, narrow, narrow),
        case("attention_linear",
             lambda q, k, v: (F.elu(q) + 1) @ ((F.elu(k) + 1).transpose(-1, -2) @ v),
             *[normal(1, 8, 1024, 32)] * 3),
        case("attention_channels",
             lambda q, k, v: (F.normalize(q, dim=-1) @ F.normalize(k, dim=-1).transpose(-1, -2))
             .softmax(-1) @ v, *[normal(1, 8, 48, 784)] * 3),
        case("attention_one_query", F.scaled_dot_product_attention, normal(1, 8, 1, 64),
             normal(*_HEADS), normal(*_HEADS)),
    ]  # fmt: skip


def _rotated(q: Any) -> Any:
    cosine, sine = _angles(q)
    even, odd = q[..., ::2], q[..., 1::2]
    return torch.stack([even * cosine - odd * sine, even * sine + odd * cosine], -1).flatten(-2)


def _half_rotated(q: Any) -> Any:
    cosine, sine = (torch.cat([a, a], -1) for a in _angles(q))
    first, second = q.chunk(2, -1)
    return q * cosine + torch.cat([-second, first], -1) * sine


def _angles(q: Any) -> tuple[Any, Any]:
    width = q.shape[-1]
    places = torch.arange(q.shape[-2]).to(q)
    turns = torch.outer(places, 10000 ** (-torch.arange(0, width, 2).to(q) / width))
    return turns.cos(), turns.sin()


def _blocks() -> list[Case]:
    tokens = normal(*_TOKENS)
    return [
        case("rotary_interleaved", _rotated, normal(*_HEADS)),
        case("rotary_halves", _half_rotated, normal(*_HEADS)),
        case("swiglu", lambda x, w, v, u: (F.silu(x @ w) * (x @ v)) @ u, tokens, weight(512, 1024),
             weight(512, 1024), weight(1024, 512)),
        case("geglu", _gated, tokens, weight(512, 2048), weight(1024, 512)),
        case("mlp", lambda x, w, b, v: F.relu(x @ w + b) @ v, normal(1, 784), weight(784, 512),
             weight(512), weight(512, 10)),
        case("lstm_cell", _lstm_cell, normal(32, 256), normal(32, 256), normal(32, 256),
             weight(256, 1024), weight(256, 1024)),
        case("patch_merge",
             lambda x, w: torch.cat([x[:, 0::2, 0::2], x[:, 1::2, 0::2], x[:, 0::2, 1::2],
                                     x[:, 1::2, 1::2]], -1) @ w,
             normal(1, 56, 56, 96), weight(384, 192)),
        case("time_embedding", _time_embedding, normal(64)),
        case("fourier_features", lambda x, b: torch.cat([(x @ b).sin(), (x @ b).cos()], -1),
             normal(4096, 3), normal(3, 64)),
        case("spectrum", lambda x: torch.fft.rfft(x).abs(), normal(*_ROWS)),
        case("spectrogram",
             lambda x: torch.stft(x, 256, 64, window=torch.hann_window(256, dtype=x.dtype),
                                  return_complex=True).abs(),
             normal(1, 16000)),
        case("embedding_sum", lambda i, j, x, y: x[i] + y[j], whole(1000, 1, 256),
             whole(256, 1, 256), normal(1000, 512), normal(256, 512)),
        case("sampled_mixture", lambda w, x: (w.softmax(-1)[..., None] * x).sum(1),
             normal(256, 8), normal(256, 8, 64)),
        case("recurrence", _recurrence, share(1, 64, 256), normal(1, 64, 256)),
    ]  # fmt: skip


def _gated(x: Any, w: Any, u: Any) -> Any:
    value, gate = (x @ w).chunk(2, -1)
    return value * F.gelu(gate) @ u


def _lstm_cell(x: Any, h: Any, c: Any, w: Any, u: Any) -> Any:
    i, f, g, o = (x @ w + h @ u).chunk(4, -1)
    return o.sigmoid() * torch.tanh(f.sigmoid() * c + i.sigmoid() * g.tanh())


def _time_embedding(t: Any) -> Any:
    turns = t[:, None] * torch.exp(-torch.arange(128).to(t) * 0.07)
    return torch.cat([torch.sin(turns), torch.cos(turns)], -1)


def _recurrence(a: Any, b: Any) -> Any:
    state = torch.zeros_like(a[:, 0])
    states = []
    for step in range(a.shape[1]):
        state = a[:, step] * state + b[:, step]
        states.append(state)
    return torch.stack(states, 1)


def cases() -> list[Case]:
    """All of them."""
    return [*_products(), *_attention(), *_blocks()]
