"""Draw the pictures of docs/gallery.md: run its blocks and keep what they write.

python scripts/draw_gallery.py
"""

import os
import re
import shutil
import tempfile
from pathlib import Path

PAGE = Path(__file__).parents[1] / "docs" / "gallery.md"


def main() -> None:
    """Run every block in order, in a folder of its own."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        names = {"__name__": "gallery"}
        for block in blocks:
            exec(compile(block, str(PAGE), "exec"), names)  # noqa: S102
        for picture in Path(folder).glob("*.jpg"):
            shutil.copy(picture, PAGE.with_suffix("") / picture.name)
            print(f"{picture.name}: {picture.stat().st_size / 1e3:.0f} kB")
        os.chdir(PAGE.parent)


if __name__ == "__main__":
    main()
