"""What a report costs: `semisure match` with one against without, at two sizes.

    python benchmarks/report_time.py

Seconds of CPU of the whole command, the smallest of three runs, so that other programs
on the machine matter little. The photos are the stereo pair of scikit-image, resized.
The page's jobs are timed by the clock, on a server that has run one before.
"""

import os
import resource
import subprocess
import sys
import tempfile
import time
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


def page_seconds(pair: list[Path]) -> tuple[float, float, float]:
    """A job of the page: matched, estimated again, and with a report."""
    from fastapi.testclient import TestClient

    from semisure.web.app import make_app

    files = {f"image{k}": ("x", path.read_bytes()) for k, path in enumerate(pair)}

    def seconds(client: TestClient, **order: object) -> tuple[float, str]:
        start = time.perf_counter()
        job = client.post("/api/jobs", **order).json()["id"]  # type: ignore[arg-type]
        while client.get(f"/api/jobs/{job}").json()["state"] != "done":
            time.sleep(0.02)
        return time.perf_counter() - start, job

    with TestClient(make_app(), base_url="http://127.0.0.1:8321") as client:
        seconds(client, files=files)  # warms up
        first, job = min(seconds(client, files=files) for _ in range(RUNS))
        again = min(seconds(client, data={"again": job})[0] for _ in range(RUNS))
        order = {"again": job, "report": "yes"}
        report = min(seconds(client, data=order)[0] for _ in range(RUNS))
    return first, again, report


def main() -> None:
    """Print both tables."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        pairs = {size: photos(folder, wh) for size, wh in SIZES.items()}
        print("semisure match, CPU s   without   with a report   ratio")
        for size, pair in pairs.items():
            plain = cpu_seconds("match", *pair)
            told = cpu_seconds("match", *pair, "--report", folder / "page.html")
            print(f"{size:>22}   {plain:7.2f}   {told:13.2f}   {told / plain:5.2f}")
        print("the page, s             matched   estimated again   with a report")
        for size, pair in pairs.items():
            first, again, report = page_seconds(pair)
            print(f"{size:>22}   {first:7.2f}   {again:15.2f}   {report:13.2f}")


if __name__ == "__main__":
    main()
