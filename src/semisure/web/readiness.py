"""Why a matcher cannot run in the page, and the command that changes that."""

from __future__ import annotations

from pathlib import Path

from semisure.matchers import MatcherStatus


def why_not_ready(row: MatcherStatus, calibrated: bool) -> tuple[str, str]:
    """A reason and a command, both empty for a matcher that is ready.

    `calibrated` says that it has a calibration, or can be given one on first use.

    >>> about = "Apache-2.0", 46_000_000, "kornia"
    >>> ready = MatcherStatus("loftr", *about, "ready", "on first use")
    >>> why_not_ready(ready, calibrated=True)
    ('', '')
    >>> missing = MatcherStatus("loftr", *about, "downloaded at first use", "shipped")
    >>> print(*why_not_ready(missing, calibrated=True), sep=chr(10))
    The weights of loftr (46 MB, Apache-2.0) are not on this machine.
    semisure fetch loftr
    """
    name, status = row.name, row.status
    size = f"{row.size / 1e6:.0f} MB, " if row.size else ""
    missing = f"The weights of {name} ({size}{row.licence}) are not on this machine."
    if status.startswith("not installed"):
        reason = f"A package that {name} needs is not installed here."
        return reason, "pip install 'semisure[torch]'"
    if status.startswith("downloaded"):
        return missing, f"semisure fetch {name}"
    if "semisure fetch" in status:
        return f"{missing} Their terms ask for your consent.", f"semisure fetch {name}"
    if not status.startswith("ready"):
        return (
            f"{missing} Download them from {row.source}, and put the file where "
            "semisure looks for it.",
            f"mkdir -p {Path(row.file).parent} && cp FILE {row.file}",
        )
    if not calibrated:
        return (
            f"{name} has no calibration, and no photos are here to make one from.",
            "pip install 'semisure[demo]'",
        )
    return "", ""
