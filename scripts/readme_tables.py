"""For `make docs`: the README's sections with tables, where a page asks for them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

ASKED = "{{ tables of the README }}"
README = Path(__file__).parents[1] / "README.md"


def sections_with_tables(text: str) -> list[str]:
    """Those of a Markdown file, without their blocks of Python."""
    prose = re.sub(r"^```python\n.*?^```\n", "", text, flags=re.DOTALL | re.MULTILINE)
    sections = re.split(r"^(?=## )", prose, flags=re.MULTILINE)
    return [part for part in sections if re.search(r"^\|[-:| ]+\|$", part, re.M)]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """The page as MkDocs goes on with it."""
    if ASKED not in markdown:
        return markdown
    found = sections_with_tables(README.read_text(encoding="utf-8"))
    return markdown.replace(ASKED, "\n".join(found))
