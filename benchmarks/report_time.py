"""What a report costs: `semisure match` with one against without, at two sizes.

    python benchmarks/report_time.py

Seconds of CPU of the whole command, the smallest of three runs, so that other programs
on the machine matter little. The photos are the stereo pair of scikit-image, resized.
"""

import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

from semisure.datasets.samples import STEREO, sample_folder
from semisure.io.images import jpeg, read_image, resized

SIZES = {"800 px": (800, 540), "12 MP": (4216, 2845)}
RUNS = 3


def photos(folder: Path, size: tuple[int, int]) -> list[Path]:
    """The pair at that size, as JPEG."""
    paths = []
    for name in STEREO[:2]:
        image = resized(read_image(sample_folder() / name), size)
        path = folder / f"{size[0]}-{name}.jpg"
        path.write_bytes(jpeg(image, 90))
        paths.append(path)
    return paths


def cpu_seconds(*arguments: str | Path) -> float:
    """CPU of the cheapest of a few runs of the command."""
    command = [sys.executable, "-m", "semisure", *map(str, arguments)]
    spent = []
    for _ in range(RUNS):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)  # noqa: S603
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(
            after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
        )
    return min(spent)


def main() -> None:
    """Print the table."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as folder:
        print("semisure match, CPU s   without   with a report   ratio")
        for name, size in SIZES.items():
            pair = photos(Path(folder), size)
            plain = cpu_seconds("match", *pair)
            told = cpu_seconds("match", *pair, "--report", Path(folder, "page.html"))
            print(f"{name:>22}   {plain:7.2f}   {told:13.2f}   {told / plain:5.2f}")


if __name__ == "__main__":
    main()
