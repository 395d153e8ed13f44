"""Run the notebook, hold its outputs to the stored ones, and make a page of it.

As a hook of MkDocs it runs in each build of the docs (see mkdocs.yml). By hand it
refreshes the outputs that are stored in the notebook:

    python scripts/notebook_page.py
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOK = Path(__file__).parents[1] / "examples" / "quickstart.ipynb"
PAGE = "quickstart.md"
RELATIVE, ABSOLUTE = 0.05, 0.011  # how far a printed number may be from the stored one
NUMBER = re.compile(r"[-−+]?\d[\d,]*\.?\d*(?:e[-+]\d+)?")


def executed(path: Path = NOTEBOOK) -> Any:
    """The notebook with fresh outputs; a cell that fails raises."""
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
    where = {"metadata": {"path": str(path.parent)}}
    NotebookClient(notebook, timeout=300, resources=where).execute()
    for cell in notebook.cells:  # times differ in each run
        cell.metadata.pop("execution", None)
    return notebook


def differences(stored: Any, fresh: Any) -> list[str]:
    """What the fresh outputs say otherwise: words exactly, numbers within 5 %."""
    found = []
    for k, (old, new) in enumerate(zip(stored.cells, fresh.cells, strict=True)):
        before, after = _text(old), _text(new)
        if NUMBER.sub("#", before) != NUMBER.sub("#", after):
            found.append(f"cell {k}: {before!r} became {after!r}")
            continue
        pairs = zip(NUMBER.findall(before), NUMBER.findall(after), strict=True)
        for a, b in ((_value(a), _value(b)) for a, b in pairs):
            if abs(a - b) > max(ABSOLUTE, RELATIVE * abs(a)):
                found.append(f"cell {k}: {a:g} became {b:g} in {after!r}")
    return found


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-").rstrip("."))


def _text(cell: Any) -> str:
    """What a cell printed."""
    outputs = cell.get("outputs", [])
    return "".join(o["text"] for o in outputs if o["output_type"] == "stream")


def page(notebook: Any) -> str:
    """The notebook as Markdown; pictures are inside what results show of themselves."""
    parts = []
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            parts.append(cell.source)
            continue
        parts.append(f"```python\n{cell.source}\n```")
        if _text(cell):
            parts.append(f"```text\n{_text(cell).rstrip()}\n```")
        shown = (output.get("data", {}) for output in cell.outputs)
        parts += [data["text/html"] for data in shown if "text/html" in data]
    return "\n\n".join(parts) + "\n"


def on_files(files: Any, config: Any) -> Any:
    """Add the page to a build of the docs; MkDocs calls this."""
    from mkdocs.exceptions import PluginError
    from mkdocs.structure.files import File

    notebook = executed()
    changed = differences(nbformat.read(NOTEBOOK, as_version=4), notebook)
    if changed:
        said = "; ".join(changed)
        raise PluginError(
            f"The notebook's outputs changed: {said}. If that is right, run python "
            "scripts/notebook_page.py"
        )
    files.append(File.generated(config, PAGE, content=page(notebook)))
    return files


if __name__ == "__main__":
    nbformat.write(executed(), NOTEBOOK)
    print(f"{NOTEBOOK.name}: outputs refreshed.")
