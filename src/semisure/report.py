"""One self-contained HTML page: pictures inside, no script, no network."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

from semisure.__about__ import __version__
from semisure.files import write_atomically

_STYLE = """
:root { color-scheme: light dark; --line: #8884; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 0 auto; max-width: 68rem;
       padding: 1.5rem 1rem 4rem; }
h1 { font-size: 1.6rem; margin: 0 0 .3rem; }
h2 { font-size: 1.15rem; margin-top: 2.4rem; }
img { max-width: 100%; height: auto; background: #fff; border-radius: 6px; }
figure { margin: 1rem 0; } figcaption { font-size: .9rem; opacity: .8; }
.row { display: flex; flex-wrap: wrap; gap: 1rem; } .row figure { flex: 1 1 20rem; }
.row figure.wide { flex-basis: 100%; } figure.wide img { width: 100%; }
table { border-collapse: collapse; margin: .8rem 0; }
th, td { text-align: right; padding: .3rem .8rem; font-variant-numeric: tabular-nums;
         border-bottom: 1px solid var(--line); }
th:first-child, td:first-child { text-align: left; }
.scroll { overflow-x: auto; } .lead { font-size: 1.05rem; }
footer { margin-top: 3rem; font-size: .85rem; opacity: .7; }
"""


@dataclass(frozen=True, slots=True)
class Picture:
    """A PNG and what it shows."""

    png: bytes
    caption: str
    wide: bool = False  # takes the page's whole width


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A heading with text, a table and pictures, each where there is one."""

    heading: str
    text: str = ""
    table: Sequence[Sequence[str]] = ()  # first row: the head
    pictures: Sequence[Picture] = ()


def write_report(
    path: str | Path, title: str, lead: str, sections: Sequence[Section]
) -> None:
    """Write the page; whatever it holds is inside the one file."""
    body = "\n".join(_section(section) for section in sections)
    page = f"""<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{_STYLE}</style>
<h1>{escape(title)}</h1>
<p class="lead">{escape(lead)}</p>
{body}
<footer>semisure {__version__}</footer>
</html>
"""
    write_atomically(Path(path), lambda file: file.write(page.encode()))


def _section(section: Section) -> str:
    parts = [f"<h2>{escape(section.heading)}</h2>"]
    if section.text:
        parts.append(f"<p>{escape(section.text)}</p>")
    if section.table:
        parts.append(_table(section.table))
    if section.pictures:
        pictures = "".join(_picture(picture) for picture in section.pictures)
        parts.append(f'<div class="row">{pictures}</div>')
    return "\n".join(parts)


def _table(rows: Sequence[Sequence[str]]) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in rows[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>"
        for row in rows[1:]
    )
    return f'<div class="scroll"><table><tr>{head}</tr>{body}</table></div>'


def _picture(picture: Picture) -> str:
    data = base64.b64encode(picture.png).decode()
    caption = escape(picture.caption)
    wide = ' class="wide"' if picture.wide else ""
    return (
        f'<figure{wide}><img src="data:image/png;base64,{data}" alt="{caption}">'
        f"<figcaption>{caption}</figcaption></figure>"
    )
