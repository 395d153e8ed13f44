"""The source files that decide a result, so that caches know when it is stale.

A cached result is named after the code that computed it. Naming it after the whole
package would discard a night's matches for a changed colour in a report.
"""

from __future__ import annotations

import ast
import hashlib
import platform
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import metadata
from pathlib import Path

PACKAGE = Path(__file__).parents[1]
_LIBRARIES = (
    *("numpy", "scipy", "opencv-python-headless", "pyarrow"),
    *("torch", "kornia", "transformers"),
    *("poselib", "pycolmap"),
)
Installed = Mapping[str, str]


@lru_cache(maxsize=256)
def sources_of(module: str) -> tuple[Path, ...]:
    """The files of a semisure module and of all semisure modules that it imports.

    >>> [path.name for path in sources_of("semisure.errors")]
    ['errors.py']
    """
    reached: set[Path] = set()
    pending = [module]
    while pending:
        path = _file(pending.pop())
        if path is not None and path not in reached:
            reached.add(path)
            pending += _imported(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(sorted(reached))


def room(name: str) -> tuple[Path, ...]:
    """All files of a semisure subpackage or module, by its name in the package."""
    path = PACKAGE / name.replace(".", "/")
    return tuple(sorted(path.rglob("*.py"))) or (path.with_suffix(".py"),)


def sha256(file: Path) -> str:
    """Of a file's content."""
    whole = hashlib.sha256()
    with file.open("rb") as stream:
        while block := stream.read(1 << 20):
            whole.update(block)
    return whole.hexdigest()


def digest(files: Iterable[Path]) -> str:
    """SHA-256 of the files' contents, in their order."""
    combined = hashlib.sha256()
    for file in files:
        combined.update(bytes.fromhex(sha256(file)))
    return combined.hexdigest()


def libraries() -> Installed:
    """The versions of installed libraries that decide the bits of an answer."""
    versions = {}
    for name in _LIBRARIES:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return versions


@lru_cache(maxsize=1)
def installed() -> Installed:
    """A digest of semisure's code, the libraries, and the kind of machine."""
    return {
        "semisure": digest(sorted(PACKAGE.rglob("*.py")))[:16],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": f"{platform.system()} {platform.machine()}",
        **libraries(),
    }


def _file(module: str) -> Path | None:
    """The file of a semisure module; None for a name in one, or another package."""
    first, *rest = module.split(".")
    if first != PACKAGE.name:
        return None
    path = PACKAGE.joinpath(*rest)
    for file in (path / "__init__.py", path.with_suffix(".py")):
        if rest and file.is_file():
            return file
    return None


def _imported(tree: ast.AST) -> Iterator[str]:
    """Modules that are imported anywhere, except under TYPE_CHECKING."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{name.name}" for name in node.names)
        elif not _is_type_checking(node):
            yield from _imported(node)


def _is_type_checking(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"
