"""`--config settings.toml`: all that has no option of its own, by its Python name."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeAlias

from semisure.errors import FileError, InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

# A function or a dataclass; its arguments that have a default are the settings.
Taker: TypeAlias = Callable[..., Any]
# The type of each setting as Python text, or the settings of a table.
Allowed: TypeAlias = dict[str, "str | Allowed"]

_NO_SETTINGS = (
    *("begin", "tick", "engine", "part", "settings", "cache"),
    *("export", "cameras", "name", "warps"),
)
_KINDS: dict[str, tuple[type, ...]] = {
    "bool": (bool,),
    "int": (int,),
    "float": (int, float),
    "str": (str,),
    "Path": (str,),
    "PathLike": (str,),
    "tuple": (list,),
    "Sequence": (list,),
    "Mapping": (dict,),
}


def settings_of(
    config: Path | None,
    given: Mapping[str, Any],
    *takers: Taker,
    tables: Mapping[str, Taker] | None = None,
) -> dict[str, Any]:
    """What the file sets, and above it the options that were `given`.

    Parameters
    ----------
    takers
        Whose arguments may be set; any other name is refused.
    tables
        The same for each table of the file, such as ``[engine]``.
    """
    allowed: Allowed = {k: v for taker in takers for k, v in _names(taker).items()}
    allowed |= {name: _names(taker) for name, taker in (tables or {}).items()}
    values = {} if config is None else _checked(_read(config), allowed, str(config))
    return values | {k: v for k, v in given.items() if v is not None}


def taken(values: Mapping[str, Any], taker: Taker) -> dict[str, Any]:
    """Those of the settings that are arguments of `taker`."""
    return {name: values[name] for name in _names(taker) if name in values}


def _names(taker: Taker) -> Allowed:
    return {
        name: str(parameter.annotation)
        for name, parameter in inspect.signature(taker).parameters.items()
        if parameter.default is not parameter.empty and name not in _NO_SETTINGS
    }


def _read(config: Path) -> dict[str, Any]:
    from semisure.types.checks import require_file

    try:
        return tomllib.loads(require_file(config).read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise FileError(f"{config} is not a TOML file: {error}.") from None


def _checked(values: dict[str, Any], allowed: Allowed, place: str) -> dict[str, Any]:
    for name, value in values.items():
        if name not in allowed:
            from semisure.types.checks import did_you_mean

            raise InputError(
                f"{place} sets {name!r}, but can only set {', '.join(sorted(allowed))}."
                f"{did_you_mean(name, list(allowed))}"
            )
        hint = allowed[name]
        if isinstance(hint, dict):
            if not isinstance(value, dict):
                raise InputError(f"{place}: {name} must be a table, [{name}].")
            values[name] = _checked(value, hint, f"[{name}] of {place}")
        else:
            values[name] = _converted(value, hint, f"{place}: {name}")
    return values


def _converted(value: Any, hint: str, place: str) -> Any:
    """The value as the type that its argument has; names of choices are text."""
    words = re.findall(r"\w+", hint)
    kinds = [kind for word in words for kind in _KINDS.get(word, ())] or [str, list]
    if not isinstance(value, tuple(kinds)) or (
        isinstance(value, bool) and bool not in kinds
    ):
        raise InputError(f"{place} must be {hint}, but is {value!r}.")
    if isinstance(value, list):
        return tuple(value)
    if "Path" not in words:
        return value
    if isinstance(value, dict):
        return {key: Path(each).absolute() for key, each in value.items()}
    return Path(value).absolute()  # workers of a cluster have other folders
