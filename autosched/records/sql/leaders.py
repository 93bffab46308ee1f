"""The best of tasks for a machine, found by index: what ``compile`` needs, and no more.

Of a task and a machine that is: all records of the fastest candidates of every variant and state of
the caches, of those that were re-measured last, and of the fastest since then, which re-measured
ones do not outweigh (see ``paired``); and, of any machine, the records with the
largest errors of each variant, which the error budget is held against.  A machine that a task has
no records of gets those of the nearest machines that it can use.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import bindparam, select, text

from autosched.records.identity import compatible, distance, executable
from autosched.records.sql.rows import RecordRow, text_of
from autosched.records.sql.tables import PLACES, SESSIONS

if TYPE_CHECKING:
    from sqlalchemy import Connection

    from sketch.target.target import Target

# Candidates of each variant and state: some may not replay any more.
_FASTEST: Final = 4
# Re-measurements of a task: of its last sessions.
_LAST_FINALS: Final = 16
# Other machines whose records are used where a task has none of its own.
_NEAREST: Final = 2

# Limits are found first, so that both databases then read a range of an index; "+ 0" keeps them
# from reading a range of another one.  The limit of the fastest is the next one after them: equal
# times are in the order of the log, as ``rank`` has them, and there may be any number of these.
_LEADERS: Final = text(
    """
    WITH places AS MATERIALIZED (
        SELECT p.task, p.machine, p.variant, p.state FROM autosched_places p
        WHERE p.task IN :tasks AND p.machine IN :machines AND p.state <> ''
    ), compared AS MATERIALIZED (
        SELECT r.task, r.state, MAX(r.id) AS last FROM autosched_records r
        WHERE r.task IN :tasks AND r.machine IN :machines AND r.phase = 'final'
        GROUP BY r.task, r.state
    ), starts AS (
        SELECT p.*, 0 AS last FROM places p
        UNION ALL
        SELECT p.*, c.last FROM places p JOIN compared c ON c.task = p.task AND c.state = p.state
    ), limits AS MATERIALIZED (
        SELECT s.*, (
            SELECT r.id FROM autosched_records r
            WHERE r.task = s.task AND r.machine = s.machine AND r.variant = s.variant
              AND r.state = s.state AND r.phase = 'trial' AND r.id + 0 > s.last
            ORDER BY r.seconds, r.id LIMIT 1 OFFSET :fastest) AS beyond
        FROM starts s
    ), fastest AS MATERIALIZED (
        SELECT l.*, COALESCE(r.seconds, 1e300) AS most
        FROM limits l LEFT JOIN autosched_records r ON r.id = l.beyond
    ), finals AS MATERIALIZED (
        SELECT p.task, p.machine, COALESCE((
            SELECT r.id FROM autosched_records r
            WHERE r.task = p.task AND r.machine = p.machine AND r.phase = 'final'
            ORDER BY r.id DESC LIMIT 1 OFFSET :finals), 0) AS least
        FROM places p GROUP BY p.task, p.machine
    ), leaders AS MATERIALIZED (
        SELECT r.task, r.candidate
        FROM fastest f JOIN autosched_records r
          ON r.task = f.task AND r.machine = f.machine AND r.variant = f.variant
         AND r.state = f.state AND r.phase = 'trial' AND r.seconds <= f.most
         AND (r.seconds < f.most OR r.id + 0 < f.beyond) AND r.id + 0 > f.last
        UNION
        SELECT r.task, r.candidate
        FROM finals f JOIN autosched_records r
          ON r.task = f.task AND r.machine = f.machine AND r.phase = 'final' AND r.id > f.least
    ), variants AS MATERIALIZED (
        SELECT DISTINCT p.task, p.variant FROM autosched_places p WHERE p.task IN :tasks
    ), chosen AS MATERIALIZED (
        SELECT r.id
        FROM leaders l JOIN autosched_records r
          ON r.candidate = l.candidate AND r.task = l.task AND r.machine IN :machines
        UNION
        SELECT (SELECT r.id FROM autosched_records r
                WHERE r.task = v.task AND r.variant = v.variant AND r.error IS NOT NULL
                ORDER BY r.error DESC LIMIT 1) FROM variants v
        UNION
        SELECT (SELECT r.id FROM autosched_records r
                WHERE r.task = v.task AND r.variant = v.variant AND r.variant_error IS NOT NULL
                ORDER BY r.variant_error DESC LIMIT 1) FROM variants v
    )
    SELECT r.id, r.line, r.digest
    FROM chosen c JOIN autosched_records r ON r.id = c.id ORDER BY r.id
    """
).bindparams(bindparam("tasks", expanding=True), bindparam("machines", expanding=True))


def leading_rows(
    connection: Connection,
    tasks: Collection[str],
    machines: Mapping[str, Target],
    target: Target,
) -> Sequence[RecordRow]:
    """The records that tell the best of some tasks.

    Args:
        connection: to the store.
        tasks: their keys.
        machines: all machines of the store, by the hash that records have.
        target: the machine that is asked for.
    """
    places = select(PLACES.c.task, PLACES.c.machine).distinct()
    there: dict[str, list[str]] = {}
    for task, machine in connection.execute(places.where(PLACES.c.task.in_(list(tasks)))):
        there.setdefault(task, []).append(machine)
    together: dict[tuple[str, ...], list[str]] = {}
    for task, known in there.items():
        chosen = _nearest({key: machines[key] for key in known if key in machines}, target)
        together.setdefault(chosen, []).append(task)
    rows: dict[int, RecordRow] = {}
    for chosen, group in together.items():
        given: dict[str, Any] = {"tasks": group, "machines": list(chosen)}
        limits = {"fastest": _FASTEST, "finals": _LAST_FINALS}
        found = connection.execute(_LEADERS, given | limits)
        rows |= {row.id: (row.id, text_of(row.line), row.digest) for row in found}
    return [rows[number] for number in sorted(rows)]


def machines_of(headers: Mapping[str, Target], connection: Connection) -> dict[str, Target]:
    """All machines of a store, by the hash that records have.

    ``headers``: the targets of its sessions, by the key of the header.
    """
    found = connection.execute(select(SESSIONS.c.key, SESSIONS.c.machine))
    return {machine: headers[key] for key, machine in found if key in headers}


def _nearest(machines: Mapping[str, Target], target: Target) -> tuple[str, ...]:
    """The machine itself, as often as it was recorded with other caches; else the nearest."""
    own = [key for key, machine in machines.items() if compatible(machine, target)]
    if own:
        return tuple(sorted(own))
    others = [key for key, machine in machines.items() if machine.kind == target.kind]
    others.sort(
        key=lambda key: (
            not executable(machines[key], target), distance(machines[key], target), key
        )
    )  # fmt: skip
    return tuple(others[:_NEAREST])
