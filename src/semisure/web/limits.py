"""What one server accepts, so that no request can take the machine."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits on uploads, on jobs, and on what is kept."""

    file_bytes: int = 20_000_000  # of each image
    pixels: int = 24_000_000  # of each image; 16-bit ones count four times
    workers: int = 2  # jobs at once, each in a process
    seconds: float = 300.0  # that a job may run
    waiting: int = 8  # jobs in the queue; more are told to come back
    kept: int = 24  # finished jobs, the oldest go first
    connections: int = 64
    shown_side: int = 1000  # of pictures in the page, px

    @property
    def body_bytes(self) -> int:
        """Two images and the form around them."""
        return 2 * self.file_bytes + 64_000
