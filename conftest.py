"""What pytest looks at: not the modules whose libraries are not installed.

Tests of optional libraries skip themselves and say why. The doctests of src/ are
collected by importing each module, which cannot skip itself: here it is left out.
"""

from __future__ import annotations

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
MISSING = tuple(name for name in OPTIONAL if find_spec(name) is None)


def pytest_report_header() -> list[str]:
    return [f"tests skip that need: {', '.join(MISSING)}"] if MISSING else []


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """True of a module, not of a test, that imports a missing library at its top."""
    helper = collection_path.suffix == ".py" and collection_path.is_file()
    if not MISSING or not helper or collection_path.name.startswith("test_"):
        return None
    guests = re.compile(rf"^(?:import|from) (?:{'|'.join(MISSING)})\b", re.MULTILINE)
    text = collection_path.read_text(encoding="utf-8")
    return True if guests.search(text) else None
