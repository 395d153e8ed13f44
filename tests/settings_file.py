"""A file for --config, as tests write it."""

from __future__ import annotations

from pathlib import Path


def config(folder: Path, text: str) -> list[str]:
    """The option that names a file of this text."""
    file = folder / "settings.toml"
    file.write_text(text)
    return ["--config", str(file)]
