"""Make the laws that know scenes, `daisy` and XFeat*'s, that come with the package.

    python scripts/calibrate_scenes.py daisy DATA PHOTOS daisy.json --cache CACHE

for `src/semisure/data/calibrations`. The eight numbers stay those of the law that is
there, which `semisure calibrate` fitted to random views of photos. How pairs differ is
fitted here, to the pairs that `semisure bench calibrated --limit 50` learns from, with
its cache of matches: views of PHOTOS, a folder of photos, and the scenes below DATA
that docs/evaluation.md describes, posed images with depth. Each has the same say.
`--without NAME` leaves scenes out, to judge the law on them. With `--neighbours`, as in
the law `xfeat-star`, matches that move alone count as more likely to fail. `--middle`
leaves the shipped law as it is and adds the third component of what is said of matches,
as `daisy` has it.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

import semisure
from semisure.__about__ import __version__
from semisure.bench.exported import Exported
from semisure.bench.options import Options
from semisure.bench.run import ONE_PROCESS
from semisure.bench.scene_laws import Lesson, learn
from semisure.bench.scenes import lessons, scene_pair, scenes_of
from semisure.bench.study import Study
from semisure.engine import open_engine
from semisure.selfcal.reported import fit_reported
from semisure.selfcal.scenes import usable
from semisure.types import Calibration

PAIRS_A_FOLDER = 50


def folders(data: Path, photos: Path, without: set[str]) -> list[Path]:
    """Every posed scene but for those left out, and the photos."""
    found = sorted(path.parent for path in data.rglob("cameras.txt"))
    return [*(root for root in found if root.name not in without), photos]


def with_middle(
    law: Calibration, scenes: Mapping[str, Sequence[Exported]]
) -> Calibration:
    """The law with a third component of what is said of matches."""
    pairs = {name: [scene_pair(one) for one in some] for name, some in scenes.items()}
    if law.pairs is None:
        raise SystemExit(f"The law of {law.matcher} does not say how pairs differ.")
    reported = fit_reported(usable(pairs), law)
    return replace(law, pairs=replace(law.pairs, reported=reported))


def main() -> None:
    """Match, fit how pairs differ, and write it beside the shipped law's numbers."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("matcher")
    parser.add_argument("data", type=Path)
    parser.add_argument("photos", type=Path)
    parser.add_argument("output", type=Path, help="File of the law.")
    parser.add_argument("--cache", type=Path, default=Path("semisure-cache"))
    parser.add_argument("--without", nargs="*", default=[], help="Scenes left out.")
    parser.add_argument("--neighbours", action="store_true")
    parser.add_argument("--middle", action="store_true")
    asked = parser.parse_args()
    shipped = semisure.load_calibration(asked.matcher)
    options = Options(
        data=folders(asked.data, asked.photos, set(asked.without)),
        matchers=(asked.matcher,),
        limit=PAIRS_A_FOLDER,
        cache=asked.cache,
    )
    with open_engine(ONE_PROCESS) as engine:
        scenes = lessons(scenes_of(Study(options, engine), asked.matcher), "")
    made_from: dict[str, Any] = {
        "scenes": {name: len(pairs) for name, pairs in scenes.items()},
        "semisure": __version__,
        "numpy": np.__version__,
        "opencv": cv2.__version__,
    }
    if asked.middle:
        law = with_middle(shipped, scenes)
        provenance = {**law.provenance, "reported": made_from}
    else:
        location, planar = shipped.location is not None, replace(shipped, pairs=None)
        law = learn(Lesson(scenes, location, planar, asked.neighbours))
        provenance = {
            "numbers": shipped.provenance["numbers"],
            "pairs": "scenes in depth and random views of photos",
            **made_from,
        }
    semisure.save_calibration(replace(law, provenance=provenance), asked.output)
    print(law.pairs)


if __name__ == "__main__":
    main()
