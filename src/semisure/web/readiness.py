"""Why a matcher cannot run in the page, and the command that changes that."""

from __future__ import annotations

from pathlib import Path

from semisure.matchers import MatcherStatus


def why_not_ready(row: MatcherStatus, calibrated: bool) -> tuple[str, str]:
    """A reason and a command, both empty for a matcher that is ready.

    >>> loftr = MatcherStatus("loftr", "Apache-2.0", 46_000_000, "kornia", "ready")
    >>> why_not_ready(loftr, calibrated=True)
    ('', '')
    >>> print(*why_not_ready(loftr, calibrated=False), sep=chr(10))
    No calibration of loftr is offered yet. Make one from any photos, then serve it.
    semisure calibrate --matcher loftr --photos FOLDER -o loftr.json && semisure serve -c loftr.json
    """  # noqa: E501 - the command is one line
    name = row.name
    calibrate = (
        f"semisure calibrate --matcher {name} --photos FOLDER -o {name}.json "
        f"&& semisure serve -c {name}.json"
    )
    if row.status.startswith("ready"):
        if calibrated:
            return "", ""
        reason = f"No calibration of {name} is offered yet."
        return f"{reason} Make one from any photos, then serve it.", calibrate
    if row.status.startswith("not installed"):
        reason = f"A package that {name} needs is not installed here."
        return reason, "pip install 'semisure[torch]'"
    if row.status.startswith("downloaded"):
        megabytes = f"{row.size / 1e6:.0f} MB" if row.size else "unknown size"
        return (
            f"The weights of {name} ({megabytes}, {row.licence}) are not on this "
            "machine, and the page downloads nothing. Calibrating it downloads them.",
            calibrate,
        )
    return (
        f"The weights of {name} ({row.licence}) are not on this machine. Download them "
        f"from {row.source}, and put the file where semisure looks for it.",
        f"mkdir -p {Path(row.file).parent} && cp FILE {row.file}",
    )
