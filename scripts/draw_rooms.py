"""Draw docs/rooms.svg: the layers of pyproject.toml, and where the walks pass.

The layers are the import contract's, the walks those of docs/architecture.md, so that
the drawing says nothing of its own: `python scripts/draw_rooms.py`.
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
WIDTH, LEFT, ROW, GAP, BOX = 880, 16, 64, 12, 50
HIDDEN = {"__about__"}  # the version number is no room
WALKS = ("match", "calibrate", "bench")

# At most thirty characters, which fit into a quarter of the width.
WORDS = {
    "cli": "the commands",
    "web": "the page of semisure serve",
    "bench": "the paper's tables and figures",
    "demo": "what semisure demo shows",
    "report": "pictures and HTML pages",
    "one_call": "semisure.match: paths and names to a result",
    "calibrate": "calibrations from images",
    "mapping": "maps, poses of queries, models",
    "pairs": "one pair, and many into a store",
    "engine": "many items, many workers",
    "estimators": "RANSAC and its relatives",
    "matchers": "matches with their cues",
    "datasets": "readers of data sets",
    "synthetic": "matches of a known law",
    "io": "files, images, stores",
    "refit": "core and core+, covariance",
    "metrics": "errors, AUC, coverage",
    "law": "the error law, its fit, and that of one pair",
    "geometry": "homographies, poses, lines",
    "types": "Matches, Calibration, Refit, array shapes, checks",
    "errors": "everything raised on purpose",
}

STYLE = """
  text { font: 14px system-ui, sans-serif; fill: #1c2733; }
  .small { font-size: 12px; }
  .soft { fill: #4a5a66; }
  .room { fill: #ffffff; stroke: #607d8b; }
  .numpy { fill: #dfe9ee; }
  .mark { font-size: 11px; font-weight: bold; fill: #ffffff; text-anchor: middle; }
  .walk0 { fill: #1565c0; } .walk1 { fill: #ad4e00; } .walk2 { fill: #6a1b9a; }
  .arrow { stroke: #607d8b; fill: none; stroke-width: 1.5; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; } .soft { fill: #b3c0ca; }
    .room { fill: #1f2630; stroke: #90a4ae; }
    .numpy { fill: #33434d; }
    .mark { fill: #10151b; }
    .walk0 { fill: #82b1ff; } .walk1 { fill: #ffb26b; } .walk2 { fill: #d6a4ec; }
    .arrow { stroke: #90a4ae; }
  }
"""


def strings_of(name: str, after: str) -> list[str]:
    """The strings of a list in pyproject.toml; Python 3.10 has no tomllib."""
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition(after)[2]
    found = re.search(rf"^{name} = \[(.*?)\]", text, re.DOTALL | re.MULTILINE)
    if found is None:
        raise SystemExit(f"pyproject.toml has no {name} after {after!r}")
    return re.findall(r'"([^"]+)"', found[1])


def layers() -> list[list[str]]:
    """Rooms from top to bottom, without the package's name."""
    rows = strings_of("layers", 'type = "layers"')
    parted = [re.findall(r"semisure\.(\w+)", row) for row in rows]
    return [[r for r in row if r not in HIDDEN] for row in parted if {*row} - HIDDEN]


def numpy_rooms() -> set[str]:
    named = strings_of("source_modules", 'type = "forbidden"')
    return {name.removeprefix("semisure.") for name in named}


def walks() -> list[list[str]]:
    """Files of each walk of docs/architecture.md, in order."""
    text = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    parts = re.split(r"^## ", text, flags=re.MULTILINE)
    chosen = [part for part in parts if part.startswith("Walk ")]
    return [re.findall(r"^\d+\. `([^`]+)`", part, re.MULTILINE) for part in chosen]


def marks(room: str, x: float, y: float) -> list[str]:
    """A numbered dot for each step in a room, coloured by its walk."""
    steps = [
        (walk, number)
        for walk, files in enumerate(walks())
        for number, file in enumerate(files, 1)
        if file.removesuffix(".py").split("/")[0] == room
    ]
    drawn = []
    for k, (walk, number) in enumerate(reversed(steps)):
        at = x - 12 - 18 * k
        drawn += [
            f'<circle class="walk{walk}" cx="{at:g}" cy="{y:g}" r="8.5"/>',
            f'<text class="mark" x="{at:g}" y="{y + 4:g}">{number}</text>',
        ]
    return drawn


def draw() -> str:
    """The whole file."""
    body, shaded = [], numpy_rooms()
    for k, row in enumerate(layers()):
        top = 16 + ROW * k
        wide = (WIDTH - 2 * LEFT - 40 - GAP * (len(row) - 1)) / len(row)
        for i, room in enumerate(row):
            x = LEFT + 40 + i * (wide + GAP)
            kind = "room numpy" if room in shaded else "room"
            body += [
                f'<rect class="{kind}" x="{x:g}" y="{top}" width="{wide:g}" '
                f'height="{BOX}" rx="6"/>',
                f'<text x="{x + 12:g}" y="{top + 20}">{room}</text>',
                f'<text class="small soft" x="{x + 12:g}" y="{top + 39}">'
                f"{WORDS[room]}</text>",
                *marks(room, x + wide - 2, top + 15),
            ]
    foot = 16 + ROW * len(layers())
    middle = foot / 2
    body += [
        f'<path class="arrow" d="M {LEFT + 22} 20 V {foot - 24} '
        'm -6 -9 l 6 9 l 6 -9"/>',
        f'<text class="small" transform="translate({LEFT + 12} {middle:g}) '
        'rotate(-90)" text-anchor="middle">imports</text>',
    ]
    for walk, name in enumerate(WALKS):
        x = LEFT + 48 + 150 * walk
        body += [
            f'<circle class="walk{walk}" cx="{x}" cy="{foot + 10}" r="8.5"/>',
            f'<text class="small" x="{x + 16}" y="{foot + 14}">walk: {name}</text>',
        ]
    x = LEFT + 48 + 150 * len(WALKS)
    body += [
        f'<rect class="room numpy" x="{x}" y="{foot + 1}" width="18" height="18" '
        'rx="3"/>',
        f'<text class="small" x="{x + 26}" y="{foot + 14}">NumPy and SciPy only</text>',
    ]
    height = foot + 36
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" '
            'role="img" aria-label="The rooms of semisure in layers">',
            f"<style>{STYLE}</style>",
            *body,
            "</svg>\n",
        ]
    )


if __name__ == "__main__":
    target = ROOT / "docs" / "rooms.svg"
    target.write_text(draw(), encoding="utf-8")
    print(f"Wrote {target}")
