"""Frames of a video as image files, which every other program can use as well."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from semisure.errors import FileError, InputError
from semisure.io.atomic import check_output_folder, write_json
from semisure.io.images import write_png
from semisure.io.sources import digest
from semisure.io.video import VIDEO_SUFFIXES, frames
from semisure.types import Tick, silent
from semisure.types.checks import require_file

NOTE = "frames.json"  # what the frames in a folder are of


def write_frames(
    video: str | Path, folder: str | Path, every: int = 5, tick: Tick = silent
) -> int:
    """Write every `every`-th frame as PNG; those that are there are kept."""
    video, folder = require_file(Path(video), "video"), Path(folder)
    if every < 1:
        raise InputError(f"every must be at least 1, but is {every}.")
    if video.suffix.lower() not in VIDEO_SUFFIXES:
        raise FileError(
            f"{video} is no video that is read: {', '.join(sorted(VIDEO_SUFFIXES))}."
        )
    check_output_folder(folder)
    note, made_of = folder / NOTE, {"video": digest([video]), "every": every}
    known = _note(note)
    if known.get("made_of") == made_of and known.get("frames"):
        return int(known["frames"])
    if known.get("made_of") != made_of and folder.is_dir() and any(folder.iterdir()):
        raise InputError(
            f"{folder} must be empty, or hold every {every}-th frame of {video}, but "
            "it holds something else. Choose another folder."
        )
    write_json(note, {"made_of": made_of, "frames": None})  # begun
    count = 0
    for k, frame in enumerate(frames(video, lambda k: k % every == 0)):
        if frame is not None:
            write_png(folder / f"frame_{k:06d}.png", frame)
            count += 1
            tick(count, count + 1)
    if count < 2:
        raise FileError(
            f"{video} must give two frames or more, but OpenCV reads {count}."
        )
    write_json(note, {"made_of": made_of, "frames": count})
    return count


def _note(path: Path) -> dict[str, Any]:
    try:
        return dict(json.loads(require_file(path).read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError, RecursionError):
        return {}
