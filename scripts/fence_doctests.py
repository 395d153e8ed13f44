"""For `make docs`: examples in docstrings shown as code, and roles as plain names."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^>>> .*(?:\n(?!\s*$).*)*)", re.MULTILINE)
_EXAMPLES = "Examples\n--------\n"
_HEADING = re.compile(r"^(\w+)\n-{3,}$", re.MULTILINE)
_ROLE = re.compile(r":\w+:`([^`]+)`")


class FenceDoctests(Extension):
    """Rewrites each docstring on its way to Markdown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        text = _ROLE.sub(r"`\1`", obj.docstring.value)
        obj.docstring.value = _EXAMPLE.sub(_fenced, text)


def _fenced(example: re.Match[str]) -> str:
    """As a block of code; after `Parameters` it gets the heading that it lacks."""
    headings = _HEADING.findall(example.string[: example.start()])
    head = _EXAMPLES if headings and headings[-1] != "Examples" else ""
    return f"{head}```pycon\n{example[0]}\n```"
