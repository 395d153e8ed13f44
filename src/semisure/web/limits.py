"""Limits of one server, so that no request can exhaust the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on uploads, on jobs, and on kept results."""

    file_bytes: int = 20_000_000  # per image
    pixels: int = 24_000_000  # per image; 16-bit ones count four times
    workers: int = 2  # jobs at once, each in a process
    seconds: float = 300.0  # a job is stopped after this
    waiting: int = 8  # jobs in the queue; more are refused
    kept: int = 24  # finished jobs; the oldest are dropped
    connections: int = 64
    upload_seconds: float = 120.0  # for all of an upload to arrive
    shown_side: int = 1200  # of pictures in the page, px

    @property
    def body_bytes(self) -> int:
        """Two images and the form around them."""
        return 2 * self.file_bytes + 64_000
