"""Install the wheel of a folder in an empty environment and run the demo from it.

What a user without the clone meets: `python scripts/try_wheel.py dist`. Nothing of this
environment or of src/ is seen by it.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def try_wheel(dist: Path) -> None:
    """Raise unless its only wheel installs and its demo writes a page."""
    (wheel,) = dist.resolve().glob("*.whl")
    with tempfile.TemporaryDirectory(prefix="semisure-release-") as made:
        folder = Path(made)
        venv.create(folder / "venv", with_pip=True)
        programs = folder / "venv" / ("Scripts" if os.name == "nt" else "bin")
        clean = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}

        def run(program: str, *arguments: str) -> str:
            print("$", program, *arguments, flush=True)
            return subprocess.run(  # noqa: S603
                [str(programs / program), *arguments],
                cwd=folder,
                env=clean,
                check=True,
                stdout=subprocess.PIPE,
                text=True,
            ).stdout

        pinned = ("--constraint", str(ROOT / "constraints.txt"))
        quiet = ("--disable-pip-version-check", "--quiet")
        asked = f"semisure[demo] @ {wheel.as_uri()}"
        run("python", "-m", "pip", *quiet, "install", *pinned, asked)
        version = run("semisure", "--version").strip()
        if version.split()[-1] not in wheel.name:
            sys.exit(f"{wheel.name} says that it is {version}")
        print(version)
        print(run("semisure", "demo", "-o", "demo.html"))
        if not (folder / "demo.html").stat().st_size:
            sys.exit("the demo wrote no page")


if __name__ == "__main__":
    try_wheel(Path(sys.argv[1]))
