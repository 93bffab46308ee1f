"""All numbers of a machine are in ``Target``; every other module constant says what it is instead.

Below ``sketch``, ``costmodel`` and ``codegen`` a number at the top of a module is listed here or in
 ``Target``; what an ablation of the search may want to set is a field of ``TuneOptions``.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Final

# Whole files and folders whose numbers are of one sort.
PLACES: Final[Mapping[str, str]] = {
    "codegen/cuda/passes/warp_products.py": "PTX: matrices of ldmatrix; length of code",
    "codegen/elf/": "the ELF format",
    "codegen/host.py": "makes targets: these are the numbers that go into them",
    "codegen/llvm/permission.py": "Linux: a system call",
    "codegen/llvm/functions/": "coefficients of polynomials; limits of float types; AVX-512: lanes",
    "sketch/operators/activations.py": "constants of the definition of an operator",
    "sketch/operators/narrow.py": "how weights are stored: bits of a word and of integers",
    "sketch/operators/scan.py": "how a running sum is written: elements of a block",
    "sketch/oracle/": "sample sizes and error bounds of the oracle, of arithmetic, not of machines",
    "autosched/tuning/network_limit.py": "when in a run, and in which runs",
    "sketch/population/draw_gpu.py": "search: which numbers are likely",
    "codegen/llvm/turned_blocks.py": "what our code for squares of vectors handles",
    "codegen/passes/turned_copies.py": "what our code for squares of vectors handles",
    "codegen/passes/turned_reads.py": "arrays of an operator, and their share of a cache",
    "costmodel/extract/turned_copies.py": "instructions of that code, and of gathers",
    "codegen/passes/fetch_rows.py": "passes over a row, and arrays of an operator",
    "sketch/rules/gpu_units.py": "levels of tiles",
    "sketch/rules/inline.py": "growth of a program; search: what is computed ahead in any case",
    "sketch/rules/rows_together.py": "search: rows at a time; arrays of an operator",
    "sketch/rules/warp_fit.py": "search: where units are offered; PTX: ldmatrix",
    "codegen/cuda/tile_text.py": "PTX: fields of a matrix descriptor",
    "codegen/cuda/tile_nest.py": "PTX: swizzling of 128 bytes",
    "sketch/rules/gpu_split_reduce.py": "search: how many parts are offered, and where",
    "sketch/target/": "makes targets: these are the numbers that go into them",
    "sketch/variants/winograd": "the transforms of one algorithm, and where it pays",
    "codegen/passes/claim_outputs.py": "parts of a cache; what our code for a trip holds",
    "codegen/llvm/strided_loads.py": "elements that one shuffle moves",
    "sketch/variants/filtering.py": "where one algorithm pays",
    "sketch/variants/correlation.py": "the fewest axes that a correlation has",
    "sketch/variants/implicit_gemm.py": "what one algorithm joins, and where it pays",
    "sketch/variants/joined_": "where one algorithm pays",
    "sketch/variants/strassen.py": "the coefficients of one algorithm, and where it pays",
    "sketch/variants/interpolation.py": "the interpolation points of that algorithm",
    "costmodel/extract/warp_terms.py": "PTX: ldmatrix, mma.sync, wgmma; what our GPU code needs",
    "costmodel/sklearn_model.py": "settings of a learner, tuned on recorded times",
    "costmodel/decision_process.py": "how far a draft model is wrong, from recorded times",
    "autosched/tuning/retiming.py": "timings: how many of them, and how noisy they are",
}
# Others by name.
REASONS: Final[Mapping[str, Mapping[str, str]]] = {
    "sketch/html.py": {"_MOST_ROWS": "what a cell of a notebook shows"},
    "sketch/variants/derive.py": {
        f"_{name}_GROWTH": "rounding errors of one algorithm"
        for name in ("F2", "SIX_POINTS", "EIGHT_POINTS", "JOINED", "STRASSEN")
    },
    "autosched/search/corpus_splits.py": {"_LEAST_TASKS": "statistics"},
    "autosched/search/drafts.py": {"_LEAST_GOING": "time of a choice", "_IDLE": "trust in drafts"},
    "autosched/search/nearest.py": {
        **dict.fromkeys(("_FARTHEST", "_FOREIGN"), "likeness of tasks"),
        "_TRIES": "time of a choice",
    },
    "autosched/search/favourite.py": {"_ROWS": "time of a choice", "_FIRST": "time of a choice"},
    "autosched/search/grid.py": {"_BLOCK": "rows that are listed at a time"},
    "autosched/search/options.py": dict.fromkeys(("_MOST_SPARE", "_MOST_POWER"), "what we accept"),
    "autosched/search/random_search.py": {"_SPARE": "rows drawn", "_LEAST": "rows drawn"},
    "autosched/search/recall.py": {"_ROOM": "what a record may ask of another machine"},
    "autosched/search/sampling.py": {"_DRAWS": "time of a choice", "_SCARCE": "time of a choice"},
    "autosched/search/task_process.py": {"_FEWEST": "statistics", "_MOST": "time of a choice"},
    "autosched/search/unmeasured.py": dict.fromkeys(
        ("SURE_BELOW", "SURE_BELOW_ON_GPUS"), "how far the draft model is believed"
    ),
    "autosched/tuning/disturbance.py": dict.fromkeys(("_AGAIN", "_SURE"), "timings"),
    "autosched/tuning/options.py": {
        "DEFAULT_TRIALS": "the limit where nobody sets one",
        "EMULATED_TRIAL_S": "the same of any machine that emulates",
        "STOP_BELOW": "noise, where nobody says what it is",
        "_MOST_SEED": "what LightGBM takes",
        "_UNIT_SECONDS": "units of time",
    },
    "autosched/tuning/resumed.py": dict.fromkeys(("_LEADERS", "_ROUNDS"), "timings"),
    "autosched/tuning/scheduler.py": {
        "_STEP": "step of a numeric derivative",
        "_TURNS_IN_FLIGHT": "time of a choice",
    },
    "autosched/tuning/spaces_ahead.py": {"_MOST": "spaces on their way"},
    "sketch/lower/packing.py": {"_KNOWN_ROWS": "rows that are remembered"},
    "costmodel/extract/gpu_lanes.py": dict.fromkeys(
        ("_BANKS", "_WORD_BYTES", "SECTOR_BYTES"), "CUDA: the same on all architectures"
    ),
    "costmodel/extract/gpu_terms.py": {"_ROUNDS": "length of code"},
    "costmodel/extract/gpu_memory.py": {"_SHARE_THAT_STAYS": "share of a cache"},
    "costmodel/extract/evictions.py": {"_ALL_GONE": "share of a cache"},
    "codegen/cuda/build.py": {"_GRID_LIMIT": "CUDA: blocks in a row of a grid"},
    "codegen/cuda/device.py": {"_ASYNCHRONOUS": "PTX: sizes of cp.async"},
    "codegen/cuda/rounds.py": {"_MOST_ROUNDS": "length of code", "_ROUNDS": "length of code"},
    "codegen/cuda/nvrtc.py": {"_ROOMY_THREADS": "what the compiler is asked for"},
    "codegen/cuda/passes/keep_rows.py": {
        "_MOST_BYTES": "registers of rows that a block of the most threads has beside its own",
        "_LEAST_READS": "reads of which all but one are saved",
    },
    "codegen/cuda/passes/lanes.py": {"WARP": "CUDA C++: what the shuffle functions are defined on"},
    "codegen/cuda/passes/pipeline.py": {
        "_STAGED_TILES": "one is read, one is on its way",
        "_LAGGING_TILES": "one is read, one is still read, one is on its way",
    },
    "codegen/cuda/passes/vectorize.py": {"_LONGEST": "registers of a piece"},
    "codegen/cuda/signature.py": {"_INT_LIMIT": "the int of CUDA C++"},
    "codegen/entry.py": {
        "ABI_VERSION": "C ABI",
        "OK": "C ABI",
        "NOT_INITIALIZED": "C ABI",
        "OUT_OF_MEMORY": "C ABI",
        "BUSY": "C ABI",
        "NULL_POINTER": "C ABI",
        "_HUGE_PAGE_BYTES": "Linux",
        "_ADVISE_HUGE_PAGES": "Linux",
    },
    "codegen/kernel.py": {"BUFFER_ALIGNMENT": "C ABI: what callers promise on every target"},
    "codegen/llvm/conversions.py": {"_LOW_BITS": "bits of a double"},
    "codegen/llvm/memory.py": {"_REGISTER_BITS": "LLVM: widths of vector types"},
    "codegen/llvm/shuffled_loads.py": {"_MOST_BYTES": "LLVM: shuffles that it can do"},
    "codegen/llvm/module.py": {"_STACK_ALIGNMENT": "calling conventions of x86-64 and AArch64"},
    "codegen/cuda/resources.py": {"_FEW_SPILLED": "what is worth timing"},
    "codegen/gpu/alignment.py": {
        "DEVICE_ALIGNMENT": "what we promise of addresses",
        "WIDEST": "PTX: the widest access of a thread",
        "LINE": "CUDA: bytes of a cache line of all GPUs",
    },
    "codegen/file_cache.py": {"_MOST_BYTES": "disk", "_ABANDONED_S": "files of killed processes"},
    "codegen/gpu/emulation/checked.py": {
        "_ALIGNMENT": "layout of a file of our own",
        "_DYNAMIC_ALIGNMENT": "of what our GPU code declares",
        "_SECONDS": "when a program of tests hangs",
    },
    "codegen/gpu/emulation/library.py": {
        "_MOST_LOG": "length of a message",
        "_STATUS": "codes of our own header",
    },
    "codegen/gpu/host.py": {"_KHZ": "units", "_EDGES": "units", "_BYTE_BITS": "units"},
    "codegen/gpu/missing.py": {
        "_RELEASE": "how the driver writes its version",
        "_NO_DEVICE": "a status of the driver",
    },
    "codegen/llvm/region.py": {"CHUNKS_A_THREAD": "how loops are shared out, in every kernel"},
    "codegen/llvm/denormals.py": {
        "_MXCSR_BITS": "bits of a register, as x86 defines them",
        "_FPCR_BITS": "bits of a register, as ARM defines them",
    },
    "codegen/llvm/team_layout.py": {
        "LINE_BYTES": "layout of a team in memory, twice a cache line: two are fetched together",
        "SLEEPERS": "layout of a team in memory",
        "TIMES_SLEPT": "layout of a team in memory",
        "THREADS": "layout of a team in memory",
        "USERS": "layout of a team in memory",
        "STARTED": "layout of a team in memory",
        "STOP": "layout of a team in memory",
        "ARGUMENTS": "layout of a team in memory",
        "FLUSH": "layout of a team in memory",
        "STATE": "layout of a team in memory",
        "LEFT": "layout of a team in memory",
        "RECORDS": "layout of a team in memory",
        "TEAM": "layout of a team in memory",
        "NUMBER": "layout of a team in memory",
        "SYSTEM_ID": "layout of a team in memory",
    },
    "codegen/llvm/team_region.py": {
        "_SPIN_NANOSECONDS": "what sleeping and waking costs in Linux",
        "_LOOKS_A_CLOCK": "how often a waiting thread reads the clock",
    },
    "codegen/passes/lane_trees.py": {"_LEAST_LANES": "a tree of fewer gains nothing"},
    "codegen/passes/means.py": {
        "_LEAST_TERMS": "accuracy of means: what a division may cost",
        "_LEAST_OF_DEVIATIONS": "half of a sum of two is exact",
        "_MOST_TERMS": "digits of a float32",
    },
    "codegen/passes/edge_trips.py": {"MOST_VALUES": "compile time"},
    "codegen/passes/outer_sums.py": {"_MOST_SUMS": "compile time"},
    "codegen/passes/roll_copies.py": {"MOST_TRIP": "compile time"},
    "codegen/passes/partial_sums.py": {
        **dict.fromkeys(("_TERMS", "_SHARED_TERMS", "_SHARED_BLOCKS"), "accuracy of sums"),
        **dict.fromkeys(("SHORT_TERMS", "_COMBINED_TERMS", "_BLOCKS"), "accuracy of sums"),
        "_UNROLLED": "accuracy of sums: how blocks divide",
        "_SMALL_BODY": "accuracy of sums: how blocks divide",
        "_WORTH_SPLITTING": "accuracy of sums",
    },
    "codegen/team.py": {"_NAP_S": "how a stopping team is waited for"},
    "costmodel/adapted.py": {
        "_GOOD_RANK": "how far a trained model is believed",
        "_FIRST": "statistics",
        "_FEWEST": "statistics",
        "_WORTH": "how far a trained model is believed",
        "_STEPS": "how often trees are grown again",
    },
    "costmodel/checked.py": {"_MOST_TEXT": "length of a message"},
    "costmodel/dataset.py": {
        "FAILURE_OVER_WORST": "the label of a failure",
        "FAILURE_OVER_BEST": "the label of a failure",
    },
    "costmodel/evaluation.py": {"_LEAST_SUCCESSES": "statistics", "_FOLDS": "statistics"},
    "costmodel/extract/access.py": {
        "READ": "code of a feature",
        "WRITE": "code of a feature",
        "READ_WRITE": "code of a feature",
        "SCOPE_CODE": "code of a feature",
    },
    "costmodel/extract/block_code.py": {"_ALIGNMENT": "the widest vectors of LLVM's text"},
    "costmodel/extract/block_machine.py": {
        "LANES": "layout of block code",
        "ROW_BYTES": "layout of block code",
        "FIELDS": "layout of block code",
        "STEPS": "layout of block code",
        "ROWS": "layout of block code",
        "_WIDTH": "layout of block code",
    },
    "costmodel/extract/recorded.py": {
        "_PART": "rows that are worked on at a time",
        "_SEARCHED_ROWS": "rows that tell a search from a batch",
    },
    "costmodel/extract/registers.py": {"INSTRUCTIONS": "length of our polynomials"},
    "costmodel/feature_table.py": {
        "BUFFER_SLOTS": "format of features",
        "CURVE_POINTS": "format of features",
        "_REVISION": "format of features",
    },
    "costmodel/forest.py": {"_ALL": "bits of the numbers that trees are walked with"},
    "costmodel/forest_machine.py": {
        "LANES": "rows that are worked on at a time",
        "LEAVES": "bits of the numbers that trees are walked with",
    },
    "costmodel/gbdt.py": {"_SHORTEST_S": "keeps a logarithm finite"},
    "costmodel/gbdt_options.py": {"_LEAST": "range of an option"},
    "costmodel/metrics.py": {"_LEAST_LABEL": "statistics"},
    "sketch/analysis/expr_size.py": {
        "MOST_OPERATIONS": "size of a program that we accept",
        "MOST_LEVELS": "size of a program that we accept: Python's stack",
    },
    "sketch/dag/dag.py": {"MOST_STAGES": "size of a program that we accept"},
    "sketch/dag/printer.py": {"_SYMBOLS": "precedence of operators"},
    "sketch/errors.py": {"_QUOTED": "length of a message"},
    "sketch/nest/intervals.py": {"_LARGEST": "stands for no bound"},
    "sketch/lang/affine.py": dict.fromkeys(("UNBOUNDED", "_FAR"), "stands for no bound"),
    "sketch/lower/buffers.py": {
        "_PIECE_BYTES": "PTX: the widest access of a thread",
        "_SWIZZLED": "CUDA: pieces in all banks",
    },
    "sketch/lang/prepared.py": {"_BLOCK": "from when on NumPy wakes its threads for a product"},
    "sketch/lang/dtypes.py": {"_SIZES": "element types"},
    "sketch/lang/storage_floats.py": {
        "_DOUBLE_DIGITS": "bits of a double",
        "_LOW_BITS": "bits of a double",
    },
    "sketch/verify/symbolic.py": {
        "_MOST_SYMBOLS": "size of a program that we accept",
        "_MOST_DENOMINATOR": "numbers that a literal may be the rounding of",
        "_SHOWN": "length of a message",
    },
    "sketch/population/feasible.py": {"_LOCAL_SHARE_OF_L2": "a share of a number of Target"},
    "sketch/population/blocks_gpu.py": {
        "_WARPS_OF_A_BLOCK": "search: what hides latencies",
        "_MOST_PADDING": "search",
    },
    "sketch/population/written_out_gpu.py": {
        "_MOST_COPIES": "length of code",
        "_MOST_LOADS": "length of code",
        "_MOST_TESTED": "length of code",
    },
    "sketch/population/feasible_gpu.py": {
        "_OVERHEAD_REGISTERS": "what our GPU code needs",
        "_AHEAD_REGISTERS": "what our GPU code needs",
        "_TILE_REGISTERS": "what our GPU code needs",
        "_SWIZZLE_REGISTERS": "what our GPU code needs",
        "MOST_STAGED_BYTES": "what our GPU code keeps in registers",
        "_REGISTER_BYTES": "PTX",
        "_TESTED_INSTRUCTIONS": "what our GPU code needs",
        "_TILE_ALIGNMENT": "PTX: the widest access of a thread",
    },
    "sketch/population/plan.py": {"_LARGEST_BLOCK": "a limit of the C library's allocator"},
    "sketch/population/population.py": {"_MOVE_SHARE": "search", "_OTHERS": "search"},
    "sketch/population/recorded_range.py": {
        "_STEPS_FOR_EACH": "time of set-up",
        "_MOST_GROWTH": "time of set-up",
    },
    "sketch/population/smaller.py": {"_ROUNDS": "how long feasible rows are looked for"},
    "sketch/population/tape.py": {"_NEUTRAL": "arithmetic"},
    "sketch/population/tile_tables.py": {"_MAX_TILES": "size of a table", "_KEPT": "of a cache"},
    "sketch/rules/block_structure.py": {"_LEAST_TILES": "search: what is worth a block"},
    "sketch/rules/chains.py": {"_LEAST_ROWS": "search: worth blocks"},
    "sketch/rules/foreign.py": {"_MOST_GROWTH": "what a user's rule may do"},
    "sketch/rules/generate.py": {
        "MAX_SKETCHES": "search",
        "_MANY_STAGES": "search",
        "_LEAST": "search",
        "MAX_PENDING": "search",
        "_MAX_IDLE": "what a user's rule may do",
    },
    "sketch/rules/gpu_reuse.py": {"_SHARED_OPERANDS": "what counts as reuse of data"},
    "sketch/rules/gpu_threads.py": {
        "_THREADS": "positions in a list of tile levels",
        "_AXES_OF_ELEMENTS": "search",
        "_LEAST_LANES": "search: shorter axes leave lanes idle",
    },
    "sketch/rules/gpu_blocks.py": {"_MOST_SUMS": "search: what is worth a thread's tile"},
    "sketch/rules/gpu_tiling.py": {"INNER": "position in a list of tile levels"},
    "sketch/rules/gpu_transpose.py": {
        "_LEAST_WRITTEN": "search: what is worth a tile",
        "_LEAST_READ": "search: what is worth a tile",
    },
    "sketch/rules/patterns.py": {
        "MOST_READS": "what counts as reuse of data",
        "_LEAST_TILED": "search: smaller stages have nothing to tile",
    },
    "sketch/rules/scatter.py": {"_LEAST_TERMS": "search: where threads have results of their own"},
    "sketch/rules/rfactor.py": {"_CHUNKS_PER_THREAD": "search: how far parallel sums are split"},
    "sketch/rules/simple.py": {"_MIN_LANES": "a vector has two lanes", "_MANY_ROWS": "search"},
    "sketch/schedule/factors.py": {"_DENSE": "search: factors that are all listed"},
    "sketch/schedule/loop_steps.py": {"_MOST_PADDING": "size of a program that we accept"},
    "sketch/schedule/steps.py": {
        "TILE_COUNTS": "search",
        "TILE_LAYOUTS": "codes of our own",
        "TURNED_PIECES": "codes of our own",
        "BLOCK_ROWS": "search",
    },
    "sketch/schedule/walks.py": dict.fromkeys(
        ("NOT_AHEAD", "PANEL_AHEAD", "WALK_AHEAD"), "codes of our own"
    ),
    "sketch/schedule/step_fields.py": {"_MOST": "range of a field in a file"},
}


LISTED: Final = (
    "sketch/", "costmodel/", "codegen/", "autosched/search/", "autosched/tuning/"
)  # fmt: skip

CALCULATION = (
    *(ast.Constant, ast.UnaryOp, ast.BinOp, ast.Name, ast.Attribute, ast.Tuple, ast.List),
    *(ast.Dict, ast.Starred, ast.operator, ast.unaryop, ast.expr_context),
)


def is_number(value: ast.expr) -> bool:
    """Whether an expression is a number or a table of numbers, calculated or not."""
    parts = list(ast.walk(value))
    return all(isinstance(part, CALCULATION) for part in parts) and any(
        isinstance(part, ast.Constant) and type(part.value) in (int, float) for part in parts
    )


def numeric_constants(tree: ast.Module) -> Iterator[str]:
    """Names at the top of a module that are bound to numbers."""
    for node in tree.body:
        targets: list[ast.expr] = []
        if isinstance(node, ast.AnnAssign) and node.value is not None and is_number(node.value):
            targets = [node.target]
        elif isinstance(node, ast.Assign) and is_number(node.value):
            targets = node.targets
        for target in targets:
            yield from (name.id for name in ast.walk(target) if isinstance(name, ast.Name))


def constants_of(sources) -> dict[str, set[str]]:
    """By path, of where nothing but ``Target`` knows the machine, and of the search."""
    found = {
        source.path: set(numeric_constants(source.tree))
        for source in sources
        if source.path.startswith(LISTED) and not source.path.startswith(tuple(PLACES))
    }
    return {path: names for path, names in found.items() if names}


def test_every_number_says_what_it_is_if_not_of_the_machine(package_sources):
    found = constants_of(package_sources)
    missing = {path: names - REASONS.get(path, {}).keys() for path, names in found.items()}
    assert {path: names for path, names in missing.items() if names} == {}


def test_no_reason_is_left_of_a_number_that_is_gone(package_sources):
    found = constants_of(package_sources)
    gone = {path: reasons.keys() - found.get(path, set()) for path, reasons in REASONS.items()}
    assert {path: names for path, names in gone.items() if names} == {}


def test_the_check_finds_numbers_and_nothing_else():
    text = """
ONE: Final = 64
TWO = 32 * 1024
THREE, FOUR = 1, 2.5
FIVE = {"a": -1.0}
NOT: Final = "64"
NEITHER = np.frompyfunc(f, 1, 1)
NOR = {"a": "b"}
"""
    assert set(numeric_constants(ast.parse(text))) == {"ONE", "TWO", "THREE", "FOUR", "FIVE"}
