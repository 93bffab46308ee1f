"""Names that nothing else has, by a number behind what is wanted."""

from collections.abc import Collection, Sequence


def fresh_name(wanted: str, taken: Collection[str]) -> str:
    """``wanted``, numbered where something has that name already: ``k``, ``k#2``, ``k#3``."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}#{number}"
    return name


def distinct_names(names: Sequence[str]) -> list[str]:
    """``names`` with those numbered that stand there already."""
    made: list[str] = []
    for name in names:
        made.append(fresh_name(name, made))
    return made
