"""Every bench's rows on a fixed sample of data, as one JSON file to compare.

    python scripts/freeze.py ../shared/data before.json --cache /tmp/freeze
    python scripts/freeze.py ../shared/data after.json --cache /tmp/freeze
    python scripts/freeze.py --compare before.json after.json

Milliseconds and memory are no rows. To freeze another checkout, put its src on
PYTHONPATH.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PHOTOS = [
    "astronaut",
    "brick",
    "camera",
    "chelsea",
    "coffee",
    "coins",
    "grass",
    "gravel",
    "hubble",
    "ihc",
    "moon",
    "motorcycle_left",
    "page",
    "retina",
    "rocket",
]
BENCHES = {
    "all": "--data homography --data thermal --data posed --data depth/multiview "
    "--limit 6",
    "fundamental": "--data posed --data depth/multiview --limit 10",
    "localisation": "--data posed/redkitchen",
    "relative": "--data posed --limit 30 --estimator poselib",
}
SCRIPTS = {
    "honest": "--views 60 --pairs 120 120 80 "
    "--parts ratios relative poses verdicts lines",
    "coverage": "--pairs 60",
    "model_choice": "--count 30",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path, nargs="?")
    parser.add_argument("output", type=Path, nargs="?")
    parser.add_argument("--cache", type=Path, help="Folder of matches.")
    parser.add_argument("--matchers", nargs="+", default=["daisy", "xfeat-star"])
    parser.add_argument("--benchmarks", type=Path, default=ROOT / "benchmarks")
    parser.add_argument("--only", nargs="+", help="Only these.")
    parser.add_argument("--compare", type=Path, nargs=2, metavar=("BEFORE", "AFTER"))
    options = parser.parse_args()
    if options.compare:
        compare(*(json.loads(path.read_text()) for path in options.compare))
        return
    frozen = json.loads(options.output.read_text()) if options.output.exists() else {}
    for name, command in commands(options):
        if name in frozen or (options.only and name.split(",")[0] not in options.only):
            continue
        ran = subprocess.run(  # noqa: S603
            command, capture_output=True, text=True, check=False
        )
        lines = ran.stdout.splitlines()
        if ran.returncode:
            lines += ["failed", *ran.stderr.splitlines()[-3:]]
        frozen[name] = lines
        options.output.write_text(json.dumps(frozen, indent=1))
        print(name, "done", flush=True)


def commands(options: argparse.Namespace) -> Iterator[tuple[str, list[str]]]:
    data, cache = options.data.resolve(), options.cache
    photos = cache / "photos"
    if not photos.exists():
        from semisure.datasets.samples import sample_folder

        photos.mkdir(parents=True)
        for name in PHOTOS:
            for path in sample_folder().glob(f"{name}*"):
                shutil.copy(path, photos)
    bench = [sys.executable, "-m", "semisure", "bench"]
    for matcher in options.matchers:
        of = ["--matcher", matcher, "--cache", str(cache / "matches"), "-o", str(cache)]
        views = f"estimators --data {photos} --views 4 --size 640x480".split()
        yield f"estimators, {matcher}", [*bench, *views, *of]
        for name, words in BENCHES.items():
            given = re.sub(r"--data (\S+)", rf"--data {data}/\1", words).split()
            yield f"{name}, {matcher}", [*bench, name, *given, *of]
        for script in ("honest",):
            yield f"{script}, {matcher}", _script(options, script, "--matcher", matcher)
        yield (
            f"model_choice, {matcher}",
            _script(options, "model_choice", "--matchers", matcher),
        )
    yield "coverage", _script(options, "coverage")


def _script(options: argparse.Namespace, name: str, *more: str) -> list[str]:
    path, cache = options.benchmarks / f"{name}.py", options.cache / "scripts"
    given = [str(options.data.resolve()), "--cache", str(cache), *more]
    return [sys.executable, str(path), *given, *SCRIPTS[name].split()]


def compare(before: dict[str, list[str]], after: dict[str, list[str]]) -> None:
    """Print the rows that differ, by command in the order in which they were run."""
    for (name, old), (other, new) in zip(before.items(), after.items(), strict=False):
        gone = [line for line in old if line not in new]
        come = [line for line in new if line not in old]
        print(f"{name} | {other}: {len(old)} lines, {len(gone)} differ")
        for mark, lines in (("-", gone), ("+", come)):
            for line in lines:
                print(mark, line)


if __name__ == "__main__":
    main()
