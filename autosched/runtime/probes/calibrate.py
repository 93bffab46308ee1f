"""The rates of this machine, measured once: what the draft model counts time with."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from autosched.runtime.errors import CalibrationError
from autosched.runtime.probes.bandwidth import streamed_bandwidth
from autosched.runtime.probes.operations import region_seconds, vector_seconds
from autosched.runtime.probes.peak import chained_peak
from autosched.runtime.probes.rounds import LEAST_ROUNDS, Round, best_of
from autosched.system.stability import Watch
from autosched.system.user_warnings import notify
from codegen.calibration import Calibration, calibration_file, known_calibration, machine_of
from codegen.host import host_target
from sketch.lang.expr import Expr
from sketch.lang.functions import erf, exp, log, tanh
from sketch.replaced_file import check_replaceable, replaced_file
from sketch.target.rates import USUAL_RATES, nominal_rates
from sketch.target.target import Target

_ROUNDS: Final = 5  # where the best of them agree
_MOST_S: Final = 30.0  # of measuring; no round begins after it
_PAUSE_S: Final = 1.0  # before another round: what disturbs one may last for a while
_FUNCTIONS: Final[tuple[Callable[[Expr], Expr], ...]] = (exp, log, tanh, erf)
_MEMORY_BYTES: Final = 1 << 28
# The rate counts what is written, too, which comes from L2 and goes back there.  Drafts of 36,000
# measured programs rank with half of the rate of reading, and worse with all of it.
_WRITTEN_BACK: Final = 2.0
_ALONE: Final = "region on one thread"
_COSTS: Final = ("float_math", "float_div", "region", _ALONE)  # the others are speeds


def calibrate(force: bool = False) -> Calibration:
    """Measure the rates of this machine and keep them for the user.

    It takes about five seconds, half a minute where others take time away now and then.  Targets of
    this machine that are made later have these rates.

    Args:
        force: keep them, with a warning, though the machine was so busy that they may be wrong.

    Raises:
        CalibrationError: the machine was so busy, or the file cannot be written; says how busy.
    """
    path = _writable()
    found = measured_rates(host_target())
    if found.disturbed and not force:
        raise CalibrationError(
            f"the machine was busy while its rates were measured: {found.conditions}",
            hint="run it again on an idle machine, or say --force (force=True)",
        )
    if found.disturbed:
        notify([f"rates are kept though the machine was busy: {found.conditions}"])
    try:
        with replaced_file(path) as partial:
            partial.write_text(found.to_text(), encoding="utf-8")
    except OSError as error:
        raise CalibrationError(f"the rates cannot be kept: {error}") from error
    return found


def _writable() -> Path:
    """Where the rates will be kept: whether they can be is said before they are measured.

    Raises:
        CalibrationError: they cannot.
    """
    try:
        path = calibration_file()
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        check_replaceable(path)
    except (OSError, RuntimeError) as error:
        raise CalibrationError(f"the rates cannot be kept: {error}") from error
    return path


def current_calibration() -> Calibration | None:
    """What targets of this machine use; None: nominal rates."""
    return known_calibration(host_target())


def forget_calibration() -> None:
    """Back to nominal rates.

    Raises:
        CalibrationError: the file cannot be removed.
    """
    try:
        calibration_file().unlink(missing_ok=True)
    except (OSError, RuntimeError) as error:
        raise CalibrationError(f"the rates cannot be removed: {error}") from error


def measured_rates(target: Target) -> Calibration:
    """Measure in rounds; every quantity is that of its best round.

    Args:
        target: this machine, with the threads that measure.

    Raises:
        CalibrationError: nothing could be told apart from the time of an empty loop.
    """
    with Watch() as watch:
        rounds = _rounds(target)
    found = best_of(rounds, _COSTS)
    values, spread = dict(found.values), dict(found.spread)
    values["region"] -= values.pop(_ALONE)
    spread["region"] = max(spread["region"], spread.pop(_ALONE))
    lost = [name for name, value in values.items() if value <= 0]
    if lost:
        raise CalibrationError(
            f"the machine was so busy that nothing is known of {', '.join(lost)}: "
            f"{watch.conditions}",
            hint="run it again on an idle machine",
        )
    parts = [str(watch.conditions), f"{len(rounds)} rounds", found.doubt]
    text, rates = ", ".join(filter(None, parts)), _in_cycles(values, target)
    return Calibration(machine_of(target), target.threads, rates, spread, text, bool(found.doubt))


def _rounds(target: Target) -> list[Round]:
    """Some rounds, and more while there is time and the best of them are not to be believed."""
    rounds: list[Round] = []
    began = time.monotonic()
    while True:
        with Watch() as watch:
            values = _round(target)
        rounds.append(Round(values, watch.conditions))
        enough = len(rounds) >= _ROUNDS
        late = time.monotonic() - began >= _MOST_S and len(rounds) >= LEAST_ROUNDS
        if late or (enough and not best_of(rounds, _COSTS).doubt):
            return rounds
        if enough:
            time.sleep(_PAUSE_S)


def _round(target: Target) -> dict[str, float]:
    """Every quantity once: multiply-adds a second, bytes a second, and seconds.

    They are named as the rates that they become; of a region it is the whole time.
    """
    threads = target.threads
    region, alone = region_seconds(target)
    return {
        "hertz": chained_peak(target) / 2.0,
        "loads": streamed_bandwidth(target, threads * target.l1_bytes // 2),
        "l2": streamed_bandwidth(target, threads * target.l2_bytes // 2),
        "l3": streamed_bandwidth(target, max(target.l3_bytes // 2, 2 * threads * target.l2_bytes)),
        "memory": streamed_bandwidth(target, _MEMORY_BYTES),
        "float_math": statistics.geometric_mean(
            vector_seconds(target, function) for function in _FUNCTIONS
        ),
        "float_div": vector_seconds(target, lambda x: 1.0 / x),
        "region": region,
        _ALONE: alone,
    }


def _in_cycles(found: dict[str, float], target: Target) -> dict[str, float]:
    """Quantities of all threads as rates: cycles and SIMD registers."""
    units = target.fma_accumulators / (USUAL_RATES.fma_slack * USUAL_RATES.fma_latency)
    multiply_adds = found["hertz"] / (target.lanes(4) * target.threads)  # registers, one thread
    hertz = multiply_adds / units
    cycle_bytes = hertz * target.vector_bytes
    # Tiles of short registers reach less of the loads that are measured with nothing else to do.
    reached = nominal_rates(target.vector_bytes).loads / USUAL_RATES.loads
    return {
        "hertz": hertz,
        "loads": reached * found["loads"] / cycle_bytes / target.threads,
        "l2": found["l2"] / cycle_bytes / target.threads / _WRITTEN_BACK,
        "l3": found["l3"] / cycle_bytes,
        "memory": found["memory"] / cycle_bytes,
        "float_math": found["float_math"] * multiply_adds,
        "float_div": found["float_div"] * multiply_adds,
        "region": found["region"] * hertz,
    }
