"""Print what `make test` installs on this machine, each file by its SHA-256.

    python scripts/lock.py > locks/linux-cp311.txt

`make test LOCK=locks/linux-cp311.txt` then installs these very files and refuses any
other. torch is left out: its file is another one from each index that has it (CPU,
CUDA), so that it is pinned by its version alone.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

LEFT_OUT = {"semisure", "torch"}
BUILT_WITH = ("hatchling", "editables")  # for the editable install of the clone
HEADER = """\
# What tests were judged by, each file by its SHA-256; made by scripts/lock.py, used by
# make test LOCK=locks/NAME.txt. torch is pinned in constraints.txt."""


def main() -> None:
    """Ask pip what it would install into an empty environment."""
    print(HEADER)
    for line in locked(_report()):
        print(line)


def locked(report: dict[str, Any]) -> list[str]:
    """A line for each package of pip's report, in order.

    >>> archive = {"archive_info": {"hashes": {"sha256": "ab12"}}}
    >>> one = {"metadata": {"name": "Six", "version": "1.0"}, "download_info": archive}
    >>> locked({"install": [one]})
    ['six==1.0 --hash=sha256:ab12']
    """
    lines = []
    for package in report["install"]:
        name = package["metadata"]["name"].lower().replace("_", "-")
        if name not in LEFT_OUT:
            digest = package["download_info"]["archive_info"]["hashes"]["sha256"]
            version = package["metadata"]["version"]
            lines.append(f"{name}=={version} --hash=sha256:{digest}")
    return sorted(lines)


def _report() -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "report.json"
        # No shell: every word is ours.
        subprocess.run(  # noqa: S603
            [
                *(sys.executable, "-m", "pip", "install", "--quiet", "--dry-run"),
                *("--ignore-installed", "--report", str(path)),
                *("--constraint", "constraints.txt", "--only-binary", ":all:"),
                *(*BUILT_WITH, "--editable", ".[dev]"),
            ],
            check=True,
            stdout=sys.stderr,
        )
        report: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return report


if __name__ == "__main__":
    main()
