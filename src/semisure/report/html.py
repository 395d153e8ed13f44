"""One self-contained HTML page: pictures inside, no network, one line of script."""

from __future__ import annotations

import base64
import platform
import shlex
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from importlib import metadata
from pathlib import Path
from typing import Any

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
_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 68rem;
       padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin-top: 2.4rem; }
img { max-width: 100%; height: auto; border-radius: 6px; }
img.plate { background: #fff; }
figure { margin: 1rem 0; }
figcaption { font-size: .9rem; opacity: .8; margin-top: .3rem; }
.row { display: flex; flex-wrap: wrap; gap: 1rem; }
.row figure { flex: 1 1 20rem; min-width: 0; }
.row figure.wide { flex-basis: 100%; } figure.wide img { width: 100%; }
.pan { overflow-x: auto; } .pan img { min-width: 40rem; max-width: none; }
.legend { display: grid; grid-template-columns: auto minmax(8rem, 18rem) auto;
  gap: 0 .6rem; align-items: center; justify-content: start; font-size: .85rem;
  margin: .6rem 0; }
.legend i { height: .8rem; border-radius: 4px; background: linear-gradient(90deg,
  #2c7bb6, #8dc8e3, #fff6b2, #fdae61, #d7191c); }
.legend b { font-weight: normal; font-variant-numeric: tabular-nums; }
.legend span { grid-column: 2; display: flex; justify-content: space-between; }
table { border-collapse: collapse; margin: .8rem 0; }
th, td { text-align: right; padding: .3rem .8rem; font-variant-numeric: tabular-nums;
         border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.facts td { text-align: left; overflow-wrap: break-word; vertical-align: top; }
.facts td:first-child { min-width: 7rem; }
.scroll { overflow-x: auto; } .lead { font-size: 1.05rem; }
.compare { position: relative; overflow: hidden; border-radius: 6px; }
.compare img { display: block; width: 100%; border-radius: 0; }
.compare img + img { position: absolute; inset: 0; height: 100%;
  clip-path: inset(0 calc(100% - var(--at, 50%)) 0 0); }
.compare input { position: absolute; inset: 0; width: 100%; height: 100%; margin: 0;
  opacity: 0; cursor: ew-resize; touch-action: pan-y; }
.compare i { position: absolute; top: 0; bottom: 0; left: var(--at, 50%); width: 3px;
  margin-left: -1.5px; background: #fff; box-shadow: 0 0 0 1px #0008; }
.compare i::after { content: "\\2194"; position: absolute; top: 50%; left: 50%;
  width: 2.2rem; height: 2.2rem; margin: -1.1rem; border-radius: 50%; color: #111;
  background: #fff; display: grid; place-items: center; font-style: normal;
  box-shadow: 0 0 0 1px #0008; }
.compare:focus-within { outline: 3px solid #2c7bb6; outline-offset: 2px; }
.compare b { position: absolute; top: .5rem; padding: .1rem .5rem; border-radius: 6px;
  background: #000a; color: #fff; font: .8rem system-ui, sans-serif; }
.compare b.right { right: .5rem; } .compare b.left { left: .5rem; }
pre { overflow-x: auto; font-size: .85rem; padding: .6rem .8rem;
      border: 1px solid var(--line); border-radius: 6px; }
footer { margin-top: 3rem; font-size: .85rem; opacity: .7; }
"""


_LEGEND = (
    '<div class="legend">sure<i></i>doubtful'
    "<span><b>0.3</b><b>1</b><b>3</b><b>10</b><b>30 px</b></span></div>"
)

_PACKAGES = {
    "numpy": "numpy",
    "scipy": "scipy",
    "cv2": "opencv-python-headless",
    "torch": "torch",
    "kornia": "kornia",
    "transformers": "transformers",
    "poselib": "poselib",
    "pycolmap": "pycolmap",
}


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG and its caption."""

    png: bytes
    caption: str
    wide: bool = False  # takes the page's whole width
    dark: bytes | None = None  # the version for dark pages
    plate: bool = True  # white behind it, if it has no dark version


@dataclass(frozen=True, slots=True, kw_only=True)
class Slider:
    """Two JPEGs of one size, one over the other, and a line to move between them."""

    left: bytes
    right: bytes
    names: tuple[str, str]
    caption: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with text, a table and pictures, all of them optional."""

    heading: str
    text: str = ""
    legend: bool = False  # colours of expected errors
    table: Sequence[Sequence[str]] = ()  # first row: the head, or blanks for none
    pictures: Sequence[Picture] = ()
    sliders: Sequence[Slider] = ()
    code: str = ""


def write_report(
    path: str | Path, title: str, lead: str, sections: Sequence[Section]
) -> None:
    """Write the page as one file, pictures included."""
    page = page_text(title, lead, sections).encode()
    write_atomically(Path(path), lambda file: file.write(page))


def page_text(title: str, lead: str, sections: Sequence[Section]) -> str:
    """The HTML of the page."""
    body = "\n".join(_section(section) for section in sections)
    return f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
{body}
<footer>semisure {__version__}</footer>
<script>{_SCRIPT}</script>
</html>
"""


def command_line(
    command: str, arguments: Sequence[Any], flags: Mapping[str, Any]
) -> str:
    r"""The shell command that repeats a run, one flag per line.

    >>> print(command_line("semisure match", ["a b.jpg"], {"--seed": 0, "-q": True}))
    semisure match \
        'a b.jpg' \
        --seed 0 \
        -q
    """
    lines = [command, *(shlex.quote(str(argument)) for argument in arguments)]
    for flag, values in flags.items():
        for value in values if isinstance(values, list) else [values]:
            if value is True:
                lines.append(flag)
            elif value is not None and value is not False:
                lines.append(f"{flag} {shlex.quote(str(value))}")
    return " \\\n    ".join(lines)


def versions(*, loaded_only: bool = True) -> list[list[str]]:
    """Rows of versions: semisure, Python, and the packages that were used.

    Work in other processes loads its packages there; `loaded_only` false lists all.
    """
    rows = [["semisure", __version__], ["Python", platform.python_version()]]
    for module, package in _PACKAGES.items():
        if module in sys.modules or not loaded_only:
            with suppress(metadata.PackageNotFoundError):
                rows.append([package, metadata.version(package)])
    return rows


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.legend:
        parts.append(_LEGEND)
    if section.code:
        parts.append(f"<pre>{escape(section.code)}</pre>")
    if section.table:
        parts.append(_table(section.table))
    parts += [_slider(slider) for slider in section.sliders]
    if section.pictures:
        pictures = "".join(_picture(picture) for picture in section.pictures)
        parts.append(f'<div class="row">{pictures}</div>')
    return "\n".join(parts)


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
    plate = ' class="plate"' if picture.plate and picture.dark is None else ""
    shown = f'<img{plate} src="{_inside(picture.png)}" alt="{caption}">'
    if picture.dark is not None:
        dark = f'srcset="{_inside(picture.dark)}" media="(prefers-color-scheme: dark)"'
        shown = f"<picture><source {dark}>{shown}</picture>"
    if picture.wide:  # too detailed for a phone's width: it scrolls sideways
        shown = f'<div class="pan" tabindex="0">{shown}</div>'
    wide = ' class="wide"' if picture.wide else ""
    return f"<figure{wide}>{shown}<figcaption>{caption}</figcaption></figure>"


def _inside(data: bytes, kind: str = "png") -> str:
    return f"data:image/{kind};base64,{base64.b64encode(data).decode()}"


def _slider(slider: Slider) -> str:
    left, right = (escape(name) for name in slider.names)
    caption = escape(slider.caption)
    # The left picture lies on top and is cut off at the line.
    images = "".join(
        f'<img src="{_inside(data, "jpeg")}" alt="{name}">'
        for data, name in ((slider.right, right), (slider.left, left))
    )
    return (
        f'<figure><div class="compare">{images}<b class="left">{left}</b>'
        f'<b class="right">{right}</b><i></i><input type="range" min="0" max="100" '
        f'step="0.5" value="50" aria-label="{left} or {right}"></div>'
        f"<figcaption>{caption}</figcaption></figure>"
    )
