"""The model of a pair as text to paste: NumPy, OpenCV or JSON."""

from __future__ import annotations

import json
from typing import Any

from semisure.pairs.result import PairResult
from semisure.report.documents import models
from semisure.types import FloatArray

_PYTHON = {
    "H_01": """# maps points (x, y) of image 0 to image 1; pixel centres at integers
def project(x, y):
    u, v, w = H_01 @ (x, y, 1.0)
    return u / w, v / w
""",
    "F_01": """# the match of a point lies on the line a x + b y + c = 0 of image 1
def line(x, y):
    a, b, c = F_01 @ (x, y, 1.0)
    return a, b, c
""",
    "P_01": """# x_cam1 = R @ x_cam0 + t, up to the length of t
R, t = P_01[:, :3], P_01[:, 3]
""",
}
_OPENCV = {
    "H_01": """image0, image1 = cv2.imread("image0.jpg"), cv2.imread("image1.jpg")
height, width = image1.shape[:2]
aligned = cv2.warpPerspective(image0, H_01, (width, height))  # image 0 over image 1
""",
    "F_01": """points0 = np.float32([[[100, 100]]])  # of image 0
lines1 = cv2.computeCorrespondEpilines(points0, 1, F_01)  # a, b, c in image 1
""",
    "P_01": """R, t = P_01[:, :3], P_01[:, 3]
rotation_vector, _ = cv2.Rodrigues(R)
""",
}


def snippets(result: PairResult) -> dict[str, str]:
    """Code for each way to paste the model; empty where the images are unrelated.

    >>> import numpy as np
    >>> from semisure.pairs.estimation import refit_matches
    >>> from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher
    >>> matches, _ = SyntheticMatcher().match(np.eye(3), count=500)
    >>> code = snippets(refit_matches(matches, EXAMPLE_CALIBRATION))
    >>> sorted(code), code["Python"].splitlines()[0]
    (['JSON', 'OpenCV', 'Python'], 'import numpy as np')
    """
    present = {k: v for k, v in models(result).items() if v is not None}
    if not result.related or not present:
        return {}
    # A pose has a fundamental matrix too; the pose is what was asked for.
    name = "P_01" if "P_01" in present else next(iter(present))
    matrix = _literal(name, present[name])
    document: dict[str, Any] = {k: v.tolist() for k, v in present.items()}
    return {
        "Python": f"import numpy as np\n\n{matrix}\n\n{_PYTHON[name]}",
        "OpenCV": f"import cv2\nimport numpy as np\n\n{matrix}\n\n{_OPENCV[name]}",
        "JSON": json.dumps({"model": result.kind, **document}, indent=2) + "\n",
    }


def _literal(name: str, matrix: FloatArray) -> str:
    rows = (", ".join(f"{v:.17g}" for v in row) for row in matrix.tolist())
    inner = "".join(f"    [{row}],\n" for row in rows)
    return f"{name} = np.array([\n{inner}])"
