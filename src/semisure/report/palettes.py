"""Names of the colours that matches are drawn in."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

# The paper's is green to red, outliers grey; ours is distinct with any colour vision.
Palette: TypeAlias = Literal["semisure", "paper"]
PALETTES: tuple[Palette, ...] = get_args(Palette)
