"""Modules of PyTorch that select rows by masks; who imports this file loads torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import torch
from torch import nn
from torch.nn import functional

ROWS, NODES, WIDTH = 23, 7, 5


class GraphConvolution(nn.Module):  # type: ignore[misc]
    """Sums over neighbours, each node its own neighbour once, scaled by degrees."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Linear(WIDTH, 4)

    def forward(self, x: Any, edges: Any) -> Any:
        kept = edges[:, edges[0] != edges[1]]
        kept = torch.cat([kept, torch.arange(len(x)).repeat(2, 1)], 1)
        source, target = kept[0], kept[1]
        degree = x.new_zeros(len(x)).index_add(0, target, torch.ones(target.shape[0]))
        scale = degree.rsqrt()
        sent = self.weight(x)[source] * (scale[source] * scale[target]).view(-1, 1)
        return x.new_zeros(len(x), 4).index_add(0, target, sent)


class GraphAttention(nn.Module):  # type: ignore[misc]
    """Weights of neighbours add up to 1; edges have features, loops the mean of those of a node."""

    def __init__(self) -> None:
        super().__init__()
        self.weight, self.score = nn.Linear(WIDTH, 4), nn.Linear(9, 1)

    def forward(self, x: Any, edges: Any, features: Any) -> Any:
        mask = edges[0] != edges[1]
        edges, features = edges[:, mask], features[mask]
        own = torch.zeros(len(x)).scatter_reduce(0, edges[1], features, "mean", include_self=False)
        edges = torch.cat([edges, torch.arange(len(x)).repeat(2, 1)], 1)
        features = torch.cat([features, own])
        y = self.weight(x)
        pairs = torch.cat([y[edges[0]], y[edges[1]], features.unsqueeze(1)], 1)
        score = functional.leaky_relu(self.score(pairs), 0.2).squeeze(1)
        most = torch.zeros(len(x)).scatter_reduce(0, edges[1], score, "amax", include_self=False)
        weight = (score - most[edges[1]]).exp()
        total = torch.zeros(len(x)).scatter_add(0, edges[1], weight)
        sent = y[edges[0]] * (weight / total[edges[1]]).view(-1, 1)
        places = edges[1].view(-1, 1).expand(-1, 4)
        return torch.zeros(len(x), 4).scatter_add(0, places, sent)


class GraphMaximum(nn.Module):  # type: ignore[misc]
    """The largest of neighbours, those before a node alone; nodes without any keep their own."""

    def forward(self, x: Any, edges: Any) -> Any:
        kept = edges[:, edges[0] < edges[1]]
        sent = x.index_select(0, kept[0])
        places = kept[1].unsqueeze(1).expand_as(sent)
        return x.scatter_reduce(0, places, sent, "amax", include_self=False)


class Selection(nn.Module):  # type: ignore[misc]
    """A function of rows and a mask."""

    def __init__(self, function: Callable[[Any, Any], Any]) -> None:
        super().__init__()
        self._function = function

    def forward(self, x: Any, mask: Any) -> Any:
        return self._function(x, mask)


def _put_back(x: Any, mask: Any) -> Any:
    y = x.clone()
    y[mask] = x[mask].exp() * 2
    return y


def _two_steps(x: Any, mask: Any) -> Any:
    rows = x[mask]
    return rows[rows[:, 0] > 0].sum(0)


def _changed_within(x: Any, mask: Any) -> Any:
    rows = x[mask, 0]
    rows[rows < 0] = 9
    return rows.sum()


def _last_of_equal(x: Any, mask: Any) -> Any:
    places = (torch.arange(ROWS) % NODES)[mask]
    return torch.zeros(NODES, WIDTH).index_put((places,), x[mask])


def _pairs(x: Any, mask: Any) -> Any:
    every = torch.arange(ROWS)
    rows, columns = (every % 3)[mask], (every % 4)[mask]
    return torch.zeros(3, 4, WIDTH).index_put((rows, columns), x[mask], accumulate=True)


def _elements(x: Any, mask: Any) -> Any:
    both = mask.view(-1, 1) & (x > -1)
    row, column = both.nonzero(as_tuple=True)
    table = torch.arange(WIDTH * 3.0).view(WIDTH, 3)
    return torch.zeros(ROWS, 3).index_add(0, row, table[column] * x[both].view(-1, 1))


def _products(x: Any, mask: Any) -> Any:
    weight = torch.arange(WIDTH * 4.0).view(WIDTH, 4) / 20
    rows = functional.layer_norm(torch.stack([x[mask], x[mask] + 1], 1), (WIDTH,)) @ weight
    places = (torch.arange(ROWS) % NODES)[mask]
    return torch.zeros(NODES, 2, 4).index_add(0, places, rows.softmax(-1))


def _copied(x: Any, mask: Any) -> Any:
    (places,) = torch.where(mask)
    return x.index_copy(0, places, x[places] * 2)


def _whole_numbers(x: Any, mask: Any) -> Any:
    """Rows that are left out have zeros, by which integers cannot be divided."""
    count = (x > 0).long().sum(1)
    kept = mask & (count != 0)
    return (torch.arange(ROWS)[kept] % count[kept]).sum()


SELECTIONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "all": lambda x, m: (x[m] > 0).all(0),
    "any": lambda x, m: (x[m] > 0).any(),
    "changed within": _changed_within,
    "copied": _copied,
    "elements": _elements,
    "last of equal": _last_of_equal,
    "masked_select": lambda x, m: x.masked_select(m.view(-1, 1) & (x > 0)).sum(),
    "matrix": lambda x, m: x.view(ROWS, WIDTH, 1)[m.view(-1, 1) & (x > 0)].prod(0),
    "mean": lambda x, m: x[m].mean(0),
    "mean of 16 bits": lambda x, m: (x[m].half() * 2 + 15000).mean(0).float(),
    "mean of all": lambda x, m: x[m].mean(),
    "pairs": _pairs,
    "products": _products,
    "put back": _put_back,
    "softmax": lambda x, m: (x[m].softmax(0) * x[m]).sum(0),
    "square": lambda x, m: (x[m] - x[m].amax(1, keepdim=True)).square().sum(),
    "two steps": _two_steps,
    "whole numbers": _whole_numbers,
}
"""Functions of rows ``[ROWS, WIDTH]`` and a mask that may select none of them."""


def _length_as_data(x: Any, mask: Any) -> Any:
    rows = x[mask]
    return rows.sum(0) * rows.shape[0]


REFUSED: Final[Mapping[str, tuple[Callable[[Any, Any], Any], str]]] = {
    "a result": (lambda x, m: x[m], "a result of selected rows"),
    "cumulated": (lambda x, m: x[m].cumsum(0).sum(0), "an order of selected rows"),
    "joined dimensions": (lambda x, m: x[m].view(-1).sum(), "where torch has"),
    "length": (_length_as_data, "a number of selected rows"),
    "length as elements": (
        lambda x, m: torch.full_like(x, x[m].shape[0]),
        "a number of selected rows",
    ),
    "lengths of two dimensions": (
        lambda x, m: x[0, 0].expand(x[m].shape[0], x[m].shape[0]).sum(),
        "several lengths",
    ),
    "order": (lambda x, m: x[m].sort(0).values.sum(0), "sort.default of selected rows"),
    "places": (lambda x, m: x[m][torch.tensor([0, 1])], "self of selected rows"),
    "two masks": (lambda x, m: x[m].sum() + (x[m] * x[~m]).sum(), "rows of several selections"),
    "sum of two masks": (
        lambda x, m: torch.addmm(x[~m], x[m], torch.eye(WIDTH)).sum(0),
        "rows of several selections",
    ),
    "first": (lambda x, m: x[m][0], "an order of selected rows"),
    "no mask": (lambda x, m: x.unique().sum(), "unique"),
}
"""Functions that need the length or the order of what is selected, and why they are refused."""
