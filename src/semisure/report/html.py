"""One self-contained HTML page: pictures inside, no network, three lines of script."""

from __future__ import annotations

import base64
import platform
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path

from semisure.__about__ import __version__
from semisure.io.atomic import write_atomically

_POLICY = (
    "default-src 'none'; img-src data:; style-src 'unsafe-inline'; "
    "script-src 'unsafe-inline'"
)
_SCRIPT = """
for (const slider of document.querySelectorAll(".compare input"))
  slider.oninput = () =>
    slider.parentElement.style.setProperty("--at", slider.value + "%");
"""
_STYLE = Path(__file__).with_name("page.css")

_PACKAGES = (
    *("numpy", "scipy", "opencv-python-headless", "torch"),
    *("kornia", "transformers", "poselib", "pycolmap"),
)


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG or JPEG and its caption."""

    data: bytes
    caption: str
    wide: bool = False  # takes the page's whole width


@dataclass(frozen=True, slots=True)
class Fact:
    """A number, and its meaning without the paper's terms."""

    name: str
    value: str
    meaning: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """Two JPEGs of one size, one over the other, and a line to move between them."""

    left: bytes
    right: bytes
    names: tuple[str, str]
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading, and below it the parts that are given, in this order."""

    heading: str
    text: str = ""
    code: str = ""
    facts: Sequence[Fact] = ()
    table: Sequence[Sequence[str]] = ()  # first row: the head, or blanks for none
    sliders: Sequence[Slider] = ()
    pictures: Sequence[Picture] = ()


def write_report(
    path: str | Path, title: str, lead: str, sections: Sequence[Section]
) -> None:
    """Write the page as one file, pictures included."""
    page = page_text(title, lead, sections).encode()
    write_atomically(Path(path), page)


def page_text(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The HTML of the page."""
    body = "\n".join(_section(section) for section in sections)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE.read_text("utf-8")}</style>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
{body}
<footer>semisure {__version__}</footer>
<script>{_SCRIPT}</script>
</html>
"""


def versions() -> list[list[str]]:
    """Rows of versions: semisure, Python, and the packages that are installed."""
    rows = [["semisure", __version__], ["Python", platform.python_version()]]
    for package in _PACKAGES:
        with suppress(metadata.PackageNotFoundError):
            rows.append([package, metadata.version(package)])
    return rows


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.code:
        parts.append(f"<pre>{escape(section.code)}</pre>")
    if section.facts:
        parts.append(_facts(section.facts))
    if section.table:
        parts.append(_table(section.table))
    parts += [_slider(slider) for slider in section.sliders]
    if section.pictures:
        pictures = "".join(_picture(picture) for picture in section.pictures)
        parts.append(f'<div class="row">{pictures}</div>')
    return "\n".join(parts)


def _facts(facts: Sequence[Fact]) -> str:
    boxes = "".join(
        f"<div><dt>{escape(fact.name)}</dt>"
        f'<dd class="value">{escape(fact.value)}</dd>'
        f'<dd class="meaning">{escape(fact.meaning)}</dd></div>'
        for fact in facts
    )
    return f'<dl class="numbers">{boxes}</dl>'


def _table(rows: Sequence[Sequence[str]]) -> str:
    named = any(rows[0])
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0] if named)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[1:]
    )
    kind = "" if named else ' class="facts"'
    top = f"<tr>{head}</tr>" if named else ""
    return f'<div class="scroll"><table{kind}>{top}{body}</table></div>'


def _picture(picture: Picture) -> str:
    caption = escape(picture.caption)
    shown = f'<img src="{inside(picture.data)}" alt="{caption}">'
    kind = ""
    if picture.wide:  # too detailed for a phone's width: it scrolls sideways
        shown, kind = f'<div class="pan" tabindex="0">{shown}</div>', ' class="wide"'
    return f"<figure{kind}>{shown}<figcaption>{caption}</figcaption></figure>"


def inside(data: bytes) -> str:
    """A picture as an address that holds it."""
    kind = "png" if data.startswith(b"\x89PNG") else "jpeg"
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _slider(slider: Slider) -> str:
    left, right = (escape(name) for name in slider.names)
    # The left picture lies on top and is cut off at the line.
    images = "".join(
        f'<img src="{inside(data)}" alt="{name}">'
        for data, name in ((slider.right, right), (slider.left, left))
    )
    return (
        f'<figure><div class="compare">{images}<b class="left">{left}</b>'
        f'<b class="right">{right}</b><i></i><input type="range" min="0" max="100" '
        f'step="0.5" value="50" aria-label="{left} or {right}"></div>'
        f"<figcaption>{escape(slider.caption)}</figcaption></figure>"
    )
