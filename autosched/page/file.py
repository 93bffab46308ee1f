"""A page that needs nothing else, as a file or in a notebook (the extra ``report``)."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from os import PathLike
from pathlib import Path
from typing import Final

from autosched.system.errors import OptionError
from autosched.system.optional_packages import require
from sketch.replaced_file import replaced_file

_BUNDLED: Final = "window.vegaEmbed = vegaEmbed;"  # what the page's script calls
_FRAME: Final = "width: 100%; height: 42rem; border: 0"


def check_library() -> None:
    """Raise MissingPackageError unless what draws the charts is installed."""
    require("vl_convert", "reports", '"autosched[report]"')


def library() -> str:
    """JavaScript that defines ``vegaEmbed``; takes about a second.

    Raises:
        MissingPackageError: the package that has it is not installed.
    """
    check_library()
    import vl_convert

    return str(vl_convert.javascript_bundle(_BUNDLED))


@dataclass(frozen=True, slots=True, repr=False)
class ReportPage:
    """A page that was made; a notebook shows it.

    Attributes:
        text: HTML that needs nothing else.
        path: of the file that it was written to; None: it was not.
    """

    text: str
    path: Path | None = None

    def __repr__(self) -> str:
        where = "" if self.path is None else f"{self.path}, "
        return f"ReportPage({where}{len(self.text) / 1e6:.1f} MB)"

    def _repr_html_(self) -> str:
        """In a frame of its own, whose scripts see nothing of the notebook."""
        return (
            f'<iframe title="report" sandbox="allow-scripts" style="{_FRAME}" '
            f'srcdoc="{escape(self.text)}"></iframe>'
        )


def written(text: str, path: str | PathLike[str] | None) -> ReportPage:
    """The page, written whole or not at all; without a path it is not written.

    Raises:
        OptionError: the file cannot be written.
    """
    if path is None:
        return ReportPage(text)
    try:
        with replaced_file(Path(path)) as partial:
            # Names of files may hold what is no character.
            partial.write_text(text, encoding="utf-8", errors="replace")
    except OSError as error:
        raise OptionError(
            f"the report cannot be written: {error.strerror}", str(path), "choose another file"
        ) from error
    return ReportPage(text, Path(path))
