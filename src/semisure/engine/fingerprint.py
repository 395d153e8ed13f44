"""What decides the bits of an answer besides its input: code and libraries."""

from __future__ import annotations

import platform
from collections.abc import Mapping
from functools import lru_cache
from importlib import metadata

from semisure.errors import InputError
from semisure.io.sources import PACKAGE, digest

_PACKAGES = (
    *("numpy", "scipy", "opencv-python-headless", "pyarrow"),
    *("torch", "kornia", "transformers"),
    *("poselib", "pycolmap"),
)

Fingerprint = Mapping[str, str]


@lru_cache(maxsize=1)
def fingerprint() -> Fingerprint:
    """A digest of semisure's code, the versions here, and the kind of machine."""
    return {
        "semisure": digest(sorted(PACKAGE.rglob("*.py")))[:16],
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": f"{platform.system()} {platform.machine()}",
        **{name: version for name in _PACKAGES if (version := _version(name))},
    }


ELSEWHERE = "Install the same on all machines"
MEANWHILE = "It was changed meanwhile; start the command again"


def check_same(driver: Fingerprint, where: str, advice: str = ELSEWHERE) -> None:
    """Raise unless this process would give the same answers as the driver.

    >>> check_same(fingerprint(), "this worker")
    >>> check_same({**fingerprint(), "numpy": "1.0"}, "this worker")
    Traceback (most recent call last):
    semisure.errors.InputError: this worker has numpy ..., but the driver has 1.0. ...
    """
    mine = fingerprint()
    for name in sorted({*driver, *mine}):
        if driver.get(name) != mine.get(name):
            raise InputError(
                f"{where} has {name} {mine.get(name, 'not installed')}, but the driver "
                f"has {driver.get(name, 'none')}. {advice}: otherwise answers would "
                "depend on who computed them."
            )


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""
