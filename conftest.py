"""What pytest looks at, and on how many threads.

Tests of optional libraries skip themselves and say why. The doctests of src/ are
collected by importing each module, which cannot skip itself: modules whose libraries
are not installed are left out here.
"""

from __future__ import annotations

import os
import re
from importlib.util import find_spec
from pathlib import Path

OPTIONAL = (
    "torch",
    "kornia",
    "transformers",
    "safetensors",
    "poselib",
    "pycolmap",
    "h5py",
    "skimage",
    "fastapi",
    "starlette",
    "uvicorn",
)
# Before NumPy is imported. On busy cores the threads of a linear algebra library
# wait for one another, and a test of 4 s was seen to take 95 s. Processes inherit this.
for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Modules whose doctests need a library that they import in a function.
NEEDED_BY = {"pyarrow": ("io/store.py", "pairs/run.py")}
MISSING = tuple(name for name in OPTIONAL if find_spec(name) is None)


def pytest_report_header() -> list[str]:
    return [f"tests skip that need: {', '.join(MISSING)}"] if MISSING else []


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """True of a module, not of a test, that imports a missing library at its top."""
    for library, modules in NEEDED_BY.items():
        if collection_path.as_posix().endswith(modules) and not find_spec(library):
            return True
    helper = collection_path.suffix == ".py" and collection_path.is_file()
    if not MISSING or not helper or collection_path.name.startswith("test_"):
        return None
    guests = re.compile(rf"^(?:import|from) (?:{'|'.join(MISSING)})\b", re.MULTILINE)
    text = collection_path.read_text(encoding="utf-8")
    return True if guests.search(text) else None
