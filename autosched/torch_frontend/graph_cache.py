"""Compiled graphs on disk, for other processes: each a module as ``Module.save`` writes it.

They are signed as all modules are, and the name that is signed with them holds the key: a file that
somebody else wrote, or that was renamed, is not used.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from autosched import api
from autosched.records.store import open_store
from autosched.runtime.errors import ModuleFileError
from autosched.runtime.user_key import unkept_reason
from autosched.torch_frontend.graph_key import graph_key
from autosched.torch_frontend.options import BackendOptions
from codegen.file_cache import FileCache, user_cache
from sketch.errors import AutoschedError

if TYPE_CHECKING:
    from autosched.runtime.module import Module

LOG: Final = logging.getLogger("autosched.torch")
_SORT: Final = "torch"


@dataclass(frozen=True, slots=True)
class KeptGraph:
    """One graph, compiled for one set of arguments, in a cache; there or not.

    Attributes:
        name: of its module, which the key is a part of.
        files: the cache.
    """

    name: str
    files: FileCache

    def load(self) -> Module | None:
        """The module; None where there is none that can be used."""
        path = self.files.find(self._file)
        if path is None:
            return None
        try:
            module = api.load(path)
        except AutoschedError as error:
            LOG.info("a file of the cache is not used: %s", error)
        else:
            if module.name == self.name:
                return module
        self.drop()
        return None

    def save(self, module: Module) -> None:
        """Keep a module, unless it would take half of the cache, or another process was first."""
        size = module.constants.nbytes + sum(map(len, module.objects.values()))
        if 2 * size > self.files.most_bytes:
            LOG.info("a graph of %d bytes is not kept: set cache_bytes to more", size)
            return
        self._write(self._file, module.save)

    def drop(self) -> None:
        """Remove the file."""
        self.files.drop(self._file)

    def refusal(self) -> str | None:
        """Why the graph cannot be compiled; None if that is not known."""
        path = self.files.find(self._refusal)
        try:
            return None if path is None else path.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None

    def refuse(self, reason: str) -> None:
        """Keep why the graph cannot be compiled.

        Nobody signs it: the worst that a wrong one does is to let torch run the graph.
        """
        self._write(self._refusal, lambda path: path.write_text(reason, encoding="utf-8"))

    def _write(self, name: str, write: Callable[[Path], object]) -> None:
        try:
            self.files.file(name, write)
        except (OSError, ModuleFileError) as error:
            LOG.warning("a compiled graph is not kept: %s", error)

    @property
    def _file(self) -> str:
        return f"{self.name}.asd"

    @property
    def _refusal(self) -> str:
        return f"{self.name}.txt"


def kept_graph(
    graph: Any, args: Sequence[Any], static: Collection[int], options: BackendOptions
) -> KeptGraph | None:
    """Where a graph for certain arguments is kept; None for one that cannot be, or shall not.

    Args:
        graph: a ``torch.fx.GraphModule`` of ATen operators.
        args: tensors and numbers that it is called with.
        static: positions of the arguments that are constants.
        options: of the compilation.
    """
    files = _files(options)
    key = None if files is None else graph_key(graph, args, static, options)
    if files is None or key is None:
        return None
    kept = KeptGraph(f"graph-{key}", files)
    if options.tunes and options.log is not None and not open_store(options.log).exists():
        kept.drop()  # whoever removes the log wants to tune again
    return kept


def _files(options: BackendOptions) -> FileCache | None:
    if options.cache is False:
        return None
    unkept = unkept_reason()
    if unkept:  # other processes would refuse what this one signs
        LOG.warning("compiled graphs are not kept, as no key can be: %s", unkept)
        return None
    if options.cache is True:
        return replace(user_cache(_SORT), most_bytes=options.cache_bytes, look_every=1)
    return FileCache(Path(options.cache), options.cache_bytes, look_every=1)
