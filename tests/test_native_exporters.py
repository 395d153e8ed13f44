"""The scripts that export other matchers' uncertainties, and the bench on their files.

Neither network can be installed here: stand-ins with the same public calls return flows
that are known, so that axes, frames and directions are tested, not the networks.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from bench_trees import SHIFT_PX, SIZE, add_sequence
from semisure.bench.options import Options
from semisure.bench.run import of_study
from semisure.bench.studies.native import SIZE as NATIVE_SIZE
from semisure.bench.studies.native import export_native, read_native
from semisure.bench.study import Study
from semisure.engine import Engine

torch = pytest.importorskip("torch", reason="needs the extra torch")
EXAMPLES = Path(__file__).parents[1] / "examples"
WIDE, HIGH = NATIVE_SIZE
MOVED = SHIFT_PX * WIDE / SIZE[0]  # px at the size the images are brought to


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for k, name in enumerate(("i_a", "v_b")):
        add_sequence(tmp_path / "tree" / name, k)
    return tmp_path / "tree"


def script(name: str) -> ModuleType:
    module = ModuleType(name)
    exec((EXAMPLES / f"{name}.py").read_text(encoding="utf-8"), vars(module))  # noqa: S102
    return module


class StandInRoMa:
    """Half as fine a grid; the right half is 100 px off, and says so."""

    def match(self, image0: Any, image1: Any) -> dict[str, Any]:
        assert image0.shape == image1.shape == (HIGH, WIDE, 3)
        rows, columns = HIGH // 2, WIDE // 2
        x = (torch.arange(columns) + 0.5) / columns * 2 - 1
        y = (torch.arange(rows) + 0.5) / rows * 2 - 1
        warp = torch.stack(torch.meshgrid(x, y, indexing="xy"), dim=-1)
        wrong = warp[..., 0] > 0
        warp[..., 0] += 2 * MOVED / WIDE
        warp[..., 1] += torch.where(wrong, 200.0 / HIGH, 0.0)
        precision = torch.eye(2).expand(rows, columns, 2, 2).clone()
        precision[wrong] *= 0.01
        return {"warp_AB": warp[None], "precision_AB": precision[None]}


class StandInPDCNet:
    """As fine as the image; the lower half is 100 px off, and says so."""

    def estimate_flow_and_confidence_map(
        self, source: Any, target: Any, mode: str
    ) -> tuple[Any, dict[str, Any]]:
        assert source.shape == target.shape == (1, 3, HIGH, WIDE)
        assert mode == "channel_first"
        # Image 0 is the target: its first column is where image 1's is `MOVED` later.
        shift = round(MOVED)
        same = (source[..., shift:].float() - target[..., :-shift].float()).abs()
        assert same.mean() < 6.0
        flow = torch.zeros(1, 2, HIGH, WIDE)
        flow[:, 0] = MOVED
        flow[:, 1, HIGH // 2 :] = 100.0
        probability = torch.full((1, 1, HIGH, WIDE), 0.9)
        probability[..., HIGH // 2 :, :] = 0.2
        return flow, {"p_r": probability}


def select_model(*args: Any, **named: Any) -> tuple[StandInPDCNet, bool]:
    assert args[:2] == ("PDCNet_plus", "megadepth")
    assert args[2].network_type == "PDCNet_plus"
    assert (args[3:], named) == ((3, 7), {"path_to_pre_trained_models": "weights"})
    return StandInPDCNet(), True


@pytest.fixture
def _stand_ins(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, module in (
        ("romav2", SimpleNamespace(RoMaV2=StandInRoMa)),
        ("model_selection", SimpleNamespace(select_model=select_model)),
    ):
        monkeypatch.setitem(sys.modules, name, module)


@pytest.mark.usefixtures("_stand_ins")
@pytest.mark.parametrize(
    ("name", "match"),
    [
        ("RoMa v2", lambda: script("native_roma_v2").RoMa()),
        ("PDC-Net+", lambda: script("native_pdcnet_plus").PDCNet("weights")),
    ],
)
def test_networks_by_their_public_calls(
    name: str, match: Callable[[], Any], tree: Path, pool: Engine, tmp_path: Path
) -> None:
    folder = tmp_path / "native"
    assert export_native(tree, folder, match()) == 2
    matches, _ = read_native(folder / "i_a_2.npz", (NATIVE_SIZE,) * 2)
    assert len(matches) == 8500
    assert (matches.target_size, matches.source_size) == ((WIDE, HIGH),) * 2
    right = np.abs(matches.target - matches.source - [MOVED, 0]).max(axis=1) < 1e-3
    assert 0.45 < right.mean() < 0.55
    options = Options(data=[tree], cache=tmp_path / "c", native={name: folder})
    table = of_study("native", Study(options, pool)).tables[0]
    rows = {row[1]: row[2:] for row in table.rows if row[0] == name}
    # Half of the matches err by 100 px, and the uncertainty knows which.
    assert rows["its own"][:3] == [100.0, 100.0, 100.0]
    np.testing.assert_allclose(rows["errors"][:4], [50, 50, 50, 0], atol=2)
    assert rows["errors"][4] == 2 * 8500


@pytest.mark.usefixtures("_stand_ins")
def test_roma_v2s_variance_by_hand() -> None:
    roma = script("native_roma_v2")
    # Precision 4 along x and 1 along y: variances 1/4 and 1, stretched by 2 and 3.
    precision = np.zeros((1, 3, 2, 2))
    precision[0, 0] = np.diag([4.0, 1.0])
    precision[0, 1] = [[2.0, 1.0], [1.0, 2.0]]  # inverse [[2, −1], [−1, 2]] / 3
    variances = roma.variances(precision, np.array([2.0, 3.0]))
    expected = [0.25 * 4 + 9, 2 / 3 * 4 + 2 / 3 * 9]
    np.testing.assert_allclose(variances[0, :2], expected)
    assert variances[0, 2] == max(expected)  # no precision at all: the least certain


def test_an_export_goes_on_and_draws_the_same_again(tree: Path, tmp_path: Path) -> None:
    calls = []

    def match(image0: Any, image1: Any) -> tuple[Any, Any, Any]:
        calls.append(image0.shape)
        points = np.arange(200.0).reshape(100, 2)
        return points, points + 1, np.arange(100.0)

    asked = {"size": (64, 48), "sample": 10}
    assert export_native(tree, tmp_path / "x", match, **asked) == 2
    first, second = (np.load(p)["source"] for p in sorted((tmp_path / "x").iterdir()))
    assert len(first) == len(second) == 10
    assert not np.array_equal(first, second)  # each pair has a draw of its own
    (tmp_path / "x" / "v_b_2.npz").unlink()
    export_native(tree, tmp_path / "x", match, **asked)
    assert len(calls) == 3
    np.testing.assert_array_equal(np.load(tmp_path / "x/v_b_2.npz")["source"], second)
