"""Check text files: they end in one newline, lines in no blanks, and data parse.

Run by pre-commit on the files of a commit: `python scripts/check_files.py FILE...`.
YAML is checked where PyYAML is installed, TOML on Python 3.11 and later.
"""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path

# mkdocs.yml is not here: its tags are known to MkDocs only.
PARSERS = {".yaml": ("yaml", "safe_load"), ".yml": ("yaml", "safe_load")}
PARSERS |= {".cff": ("yaml", "safe_load"), ".toml": ("tomllib", "loads")}


def complaints(path: Path) -> list[str]:
    """What is wrong with a file, a sentence each."""
    text = path.read_text(encoding="utf-8")
    found = []
    if text and (not text.endswith("\n") or text.endswith("\n\n")):
        found.append("must end in one newline")
    blank = [n for n, line in enumerate(text.split("\n"), 1) if line != line.rstrip()]
    if blank and path.suffix != ".svg":
        found.append(f"has blanks at the end of line {blank[0]}")
    problem = _parse(path.suffix, text)
    return [*found, problem] if problem else found


def _parse(suffix: str, text: str) -> str:
    if suffix == ".json":
        module, function = "json", "loads"
    elif suffix in PARSERS:
        module, function = PARSERS[suffix]
    else:
        return ""
    try:
        parse = getattr(importlib.import_module(module), function)
    except ModuleNotFoundError:
        return ""
    try:
        parse(text)
    except (ValueError, json.JSONDecodeError) as error:
        return f"cannot be parsed: {error}"
    except Exception as error:
        if type(error).__module__.startswith("yaml"):
            return f"cannot be parsed: {error}"
        raise
    return ""


def main(names: list[str]) -> int:
    """Print the complaints; 1 if there are any."""
    lines = [f"{name}: {words}" for name in names for words in complaints(Path(name))]
    print("\n".join(lines), end="\n" if lines else "")
    return int(bool(lines))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
