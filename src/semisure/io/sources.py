"""Which of our own files an answer rests on, so that caches know when it is stale.

An answer that is kept on disk is named by the code that computed it. Naming it by all
of the package would throw away a night's matches for a changed colour in a report.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

PACKAGE = Path(__file__).parents[1]


@lru_cache(maxsize=256)
def sources_of(module: str) -> tuple[Path, ...]:
    """The file of a module of ours, and of all that it imports.

    >>> [path.name for path in sources_of("semisure.errors")]
    ['errors.py']
    """
    reached: set[Path] = set()
    waiting = [module]
    while waiting:
        path = _file(waiting.pop())
        if path is not None and path not in reached:
            reached.add(path)
            waiting += _imported(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(sorted(reached))


def room(name: str) -> tuple[Path, ...]:
    """All files of a room or module of ours, by its name below the package."""
    path = PACKAGE / name.replace(".", "/")
    return tuple(sorted(path.rglob("*.py"))) or (path.with_suffix(".py"),)


def digest(files: Iterable[Path]) -> str:
    """SHA-256 of the files' contents, in their order."""
    whole = hashlib.sha256()
    for file in files:
        whole.update(hashlib.sha256(file.read_bytes()).digest())
    return whole.hexdigest()


def _file(module: str) -> Path | None:
    """Where a module of ours is; None for a name inside one, or another's module."""
    first, *rest = module.split(".")
    if first != PACKAGE.name:
        return None
    path = PACKAGE.joinpath(*rest)
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if rest and file.is_file():
            return file
    return None


def _imported(tree: ast.AST) -> Iterator[str]:
    """Modules imported anywhere, but for those imported for their types alone."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif not _for_types(node):
            yield from _imported(node)


def _for_types(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
