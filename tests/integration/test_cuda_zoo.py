"""GPU search spaces of the zoo's tasks: few launches, whole warps, rows that fit and fill the card.

Lowering and emission alone: no compiler and no device.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from itertools import chain
from math import prod

import numpy as np
import pytest

from autosched import Task, zoo
from autosched.graph.extract import extract
from autosched.graph.ir import Network
from autosched.search.space import draft_candidate
from autosched.zoo.bert import Bert, add_bert
from autosched.zoo.layers import LayerBuilder
from codegen.cuda.build import emit
from codegen.cuda.kernel import Launch
from sketch.dag.dag import ComputeDAG
from sketch.lower import lower
from sketch.population.feasible import feasible, fills
from sketch.population.population import Population, sample
from sketch.rules.generate import generate
from sketch.rules.gpu_reuse import shares_operands
from sketch.target.gpu_targets import cuda_target

H200 = cuda_target("h200")
_ROWS = 64
_EMITTED = 1  # rows of each sketch
_FULL_BLOCK = 128
_PARTS = 6


def _bert() -> Network:
    layers = LayerBuilder("bert-of-one-layer", seed=0)
    add_bert(layers, Bert(layers=1, heads=12, hidden=768, inner=3072, words=100), 1, 128)
    return layers.finish()


def _tasks(networks: Iterable[Network]) -> Mapping[str, ComputeDAG]:
    """The distinct programs of networks, by names that are fit to print."""
    found: dict[str, ComputeDAG] = {}
    keys: set[str] = set()
    for network in networks:
        for call in extract(network).subgraphs:
            if call.dag.key not in keys:
                keys.add(call.dag.key)
                found[f"{network.name} {call.output_name} {len(found)}"] = call.dag
    return found


@pytest.fixture(scope="module")
def tasks() -> Mapping[str, ComputeDAG]:
    """Of one network, and some of others, whose layers differ in extents alone."""
    sparse = tuple(_tasks((zoo.mobilenet_v2(),)).items())[::5]
    dense = tuple(_tasks((zoo.resnet18(),)).items())[::2]
    return {**_tasks((_bert(),)), **dict(sparse), **dict(dense)}


@pytest.fixture(scope="module")
def populations(tasks: Mapping[str, ComputeDAG]) -> Mapping[str, list[Population]]:
    """Drawn rows of every sketch of every task."""
    rng = np.random.default_rng(0)
    return {
        name: [sample(sketch, _ROWS, rng) for sketch in generate(dag, H200)]
        for name, dag in tasks.items()
    }


def _launches(population: Population) -> list[tuple[Launch, ...]]:
    fits = np.flatnonzero(feasible(population.sketch, population.columns()))
    rows = [population.row(int(index)) for index in fits[:: max(1, len(fits) // _EMITTED)]]
    return [emit(lower(population.sketch, row), H200).launches for row in rows]


def _points(dag: ComputeDAG) -> int:
    """Of the stage with fewest: what is reduced to rows has a block a row at most."""
    outputs = {tensor.op for tensor in dag.outputs}
    return min(prod(op.shape) for op in dag.stages if op in outputs or op.reduce is not None)


@pytest.mark.slow
def test_most_drawn_rows_fit(populations: Mapping[str, list[Population]]) -> None:
    shares = {
        f"{name} {population.sketch.key}": feasible(population.sketch, population.columns()).mean()
        for name, found in populations.items()
        for population in found
    }
    assert len(shares) > 50
    assert {name: share for name, share in shares.items() if share < 0.5} == {}


@pytest.mark.slow
def test_launches_are_few_and_blocks_have_whole_warps(
    tasks: Mapping[str, ComputeDAG], populations: Mapping[str, list[Population]]
) -> None:
    for name, found in populations.items():
        dag = tasks[name]
        tiled = any(shares_operands(op) for op in dag.stages)
        for launches in (x for population in found for x in _launches(population)):
            assert len(launches) <= (2 if tiled else 1), name
            for launch in launches:
                small = launch.grid * launch.block < H200.warp_size
                assert launch.block % H200.warp_size == 0 or small, f"{name}: {launch}"


@pytest.mark.slow
def test_rows_fill_the_card_where_the_output_allows_it(
    tasks: Mapping[str, ComputeDAG], populations: Mapping[str, list[Population]]
) -> None:
    checked = 0
    for name, found in populations.items():
        if _points(tasks[name]) < H200.threads * _FULL_BLOCK:
            continue
        for population in found:
            full = fills(population.sketch, population.columns())
            assert full.mean() > 0.25, name
            nest = lower(population.sketch, population.row(int(np.flatnonzero(full)[0])))
            launches = emit(nest, H200).launches
            assert all(_is_full(launch) for launch in launches), name
            checked += 1
    assert checked > 30


def _is_full(launch: Launch) -> bool:
    return launch.block >= _FULL_BLOCK and launch.grid >= H200.threads


@cache
def _of_all_networks() -> Mapping[str, ComputeDAG]:
    networks = (zoo.build(name) for name in zoo.NAMES if "bert" not in name)
    return _tasks(chain(networks, (zoo.resnet18(batch=16), _bert())))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(_PARTS))
def test_picks_of_the_draft_for_every_network_fill_the_card_in_one_launch_or_two(part: int) -> None:
    """What is compiled without a record, as far as the output allows it."""
    tasks = tuple(_of_all_networks().items())
    assert len(tasks) > 250
    rng = np.random.default_rng(part)
    for name, dag in tasks[part::_PARTS]:
        for sketch in generate(dag, H200):
            drawn = sample(sketch, 2 * _ROWS, rng)
            assert feasible(sketch, drawn.columns()).mean() >= 0.5, name
        pick = draft_candidate(Task(dag, H200))
        launches = emit(lower(pick.sketch, pick.values), H200).launches
        tiled = any(shares_operands(op) for op in dag.stages)
        phases = sum(op.store is not None for op in dag.stages)
        assert len(launches) <= max(2 if tiled else 1, phases), name
        assert all(launch.block % H200.warp_size == 0 for launch in launches), name
        if _points(dag) >= H200.threads * _FULL_BLOCK:
            assert all(map(_is_full, launches)), f"{name}: {launches}"
