"""`--config settings.toml`: settings without an option, by their Python names."""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from semisure.errors import FileError, InputError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

if TYPE_CHECKING:
    from semisure.engine import EngineSettings

# A function or a dataclass; its arguments that have a default are the settings.
Callee: TypeAlias = Callable[..., Any]
# The type of each setting as Python text, or the settings of a table.
Allowed: TypeAlias = dict[str, "str | Allowed"]

# Arguments that can be passed in Python only.
_NO_SETTINGS = (
    *("begin", "cache", "cameras", "engine", "export", "name", "part"),
    *("settings", "tick", "warps"),
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
    arguments: Mapping[str, Any], *callees: Callee, engine: bool = False
) -> dict[str, Any]:
    """The arguments of `callees` that the command line or its --config sets.

    Parameters
    ----------
    arguments
        The command's options by name; those that are left out are None or False.
    engine
        Whether the file may have a table [engine], the fields of EngineSettings.
    """
    allowed: Allowed = {k: v for callee in callees for k, v in _names(callee).items()}
    from_line = {
        name: value
        for name, value in arguments.items()
        if name in allowed and value is not None and value is not False
    }
    if engine:
        from semisure.engine import EngineSettings

        allowed["engine"] = _names(EngineSettings)
    config = arguments["config"]
    values = {} if config is None else _checked(_read(config), allowed, str(config))
    return values | from_line


def pick(settings: Mapping[str, Any], callee: Callee) -> dict[str, Any]:
    """Those of the settings that are arguments of `callee`."""
    return {name: settings[name] for name in _names(callee) if name in settings}


def engine_of(
    settings: Mapping[str, Any], workers: int | None, *, otherwise: int | None = None
) -> EngineSettings:
    """The engine by the config's table and --workers.

    `otherwise` is the number of local processes if neither states it.
    """
    from semisure.engine import EngineSettings

    table = dict(settings.get("engine", {}))
    if table.get("kind", "local") == "local":
        table.setdefault("workers", otherwise)
    if workers is not None:
        table["workers"] = workers
    return EngineSettings(**table)


def _names(callee: Callee) -> Allowed:
    return {
        name: str(parameter.annotation)
        for name, parameter in inspect.signature(callee).parameters.items()
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
        if not isinstance(hint, dict):
            values[name] = _converted(value, hint, f"{place}: {name}")
        elif isinstance(value, dict):
            values[name] = _checked(value, hint, f"[{name}] of {place}")
        else:
            raise InputError(f"{place}: {name} must be a table, [{name}].")
    return values


def _converted(value: Any, hint: str, place: str) -> Any:
    """The value as the type of its argument; choices are text."""
    words = re.findall(r"\w+", hint)
    kinds = [kind for word in words for kind in _KINDS.get(word, ())] or [str, list]
    if type(value) not in kinds:  # a bool is an int, but is not accepted as one
        raise InputError(f"{place} must be {hint}, but is {value!r}.")
    if isinstance(value, list):
        return tuple(value)
    if "Path" not in words:
        return value
    # Absolute, because workers of a cluster have other folders.
    if isinstance(value, dict):
        return {key: Path(each).absolute() for key, each in value.items()}
    return Path(value).absolute()
