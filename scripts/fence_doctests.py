"""For `make docs`: examples in docstrings shown as code, and roles as plain names."""

from __future__ import annotations

import re
from typing import Any

from griffe import Extension, Object

_EXAMPLE = re.compile(r"(?:^>>> .*(?:\n(?!\s*$).*)*)", re.MULTILINE)
_ROLE = re.compile(r":\w+:`([^`]+)`")


class FenceDoctests(Extension):
    """Rewrites each docstring on its way to Markdown."""

    def on_object(self, *, obj: Object, **_: Any) -> None:
        if obj.docstring is None:
            return
        text = _ROLE.sub(r"`\1`", obj.docstring.value)
        obj.docstring.value = _EXAMPLE.sub(
            lambda found: f"```pycon\n{found[0]}\n```", text
        )
