"""Run hloc's own steps, unchanged, on what `semisure export` writes.

    python scripts/try_hloc.py --hloc ~/Hierarchical-Localization --images photos \
        --queries queries_with_intrinsics.txt --work out

The images that the list of queries names (name MODEL WIDTH HEIGHT PARAMS…) are the
queries, all others the map. Five steps: match and export the map; hloc's
``match_dense.main`` finds that all is there; hloc's ``reconstruction.main`` makes the
map; match the queries to it and export them with the map's keypoints; hloc's
``localize_sfm.main`` finds their poses. hloc is taken from where the user has it.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

from semisure.io.hloc import read_queries
from semisure.pairs.lists import exhaustive_pairs, image_names


def semisure(*arguments: str | Path) -> None:
    """Run a command of ours and show it."""
    words = [str(word) for word in arguments]
    print("$ semisure", shlex.join(words), flush=True)
    command = [sys.executable, "-m", "semisure", *words]
    subprocess.run(command, check=True)  # noqa: S603


def write_pairs(path: Path, pairs: list[tuple[str, str]]) -> Path:
    path.write_text("".join(f"{a} {b}\n" for a, b in pairs), encoding="utf-8")
    return path


def exported(work: Path, name: str, images: Path, pairs: Path, *more: str) -> Path:
    """The folder of hloc's files for a list of pairs."""
    store, folder = work / f"{name}-store", work / name
    semisure("match-pairs", images, "--pairs", pairs, "--workers", "2", "-o", store)
    semisure("export", store, "--to", "hloc", *more, "-o", folder)
    return folder


def map_by_hloc(images: Path, mapped: list[str], work: Path) -> tuple[Path, Path]:
    """The folder of hloc's map and our files that it was made of."""
    pairs = write_pairs(work / "map-pairs.txt", exhaustive_pairs(mapped))
    ours = exported(work, "map", images, pairs)
    features, matches = ours / "features.h5", ours / "matches.h5"
    before = features.stat().st_size, matches.stat().st_size
    match_dense = importlib.import_module("hloc.match_dense")
    match_dense.main(
        match_dense.confs["loftr"], pairs, images, matches=matches, features=features
    )
    if (features.stat().st_size, matches.stat().st_size) != before:
        raise SystemExit("hloc matched again what was there")
    reconstruction = importlib.import_module("hloc.reconstruction")
    sfm = work / "sfm"
    model = reconstruction.main(
        sfm, images, ours / "pairs.txt", features, matches, image_list=mapped
    )
    print(f"hloc's map: {model.num_reg_images()} of {len(mapped)} images")
    return sfm, ours


def localize_by_hloc(
    images: Path, queries: Path, names: list[str], sfm: Path, ours: Path, work: Path
) -> Path:
    """hloc's poses of the queries."""
    model: Any = importlib.import_module("pycolmap").Reconstruction(str(sfm))
    mapped = sorted(image.name for image in model.images.values())
    pairs = write_pairs(
        work / "query-pairs.txt", [(q, m) for q in names for m in mapped]
    )
    reference = ("--reference", str(ours / "features.h5"))
    found = exported(work, "queries", images, pairs, *reference)
    results = work / "poses.txt"
    importlib.import_module("hloc.localize_sfm").main(
        sfm, queries, pairs, found / "features.h5", found / "matches.h5", results
    )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--hloc", type=Path, required=True, help="hloc's repository")
    parser.add_argument("--images", type=Path, required=True)
    parser.add_argument("--queries", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    asked = parser.parse_args()
    sys.path.insert(0, str(asked.hloc))
    asked.work.mkdir(parents=True, exist_ok=True)
    names = list(read_queries(asked.queries))
    mapped = [name for name in image_names(asked.images) if name not in names]
    sfm, ours = map_by_hloc(asked.images, mapped, asked.work)
    poses = localize_by_hloc(asked.images, asked.queries, names, sfm, ours, asked.work)
    print(poses.read_text(encoding="utf-8"), end="")


if __name__ == "__main__":
    main()
