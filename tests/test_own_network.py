"""The page on one's own network: its blocks run, and their cues are the adapters'."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from semisure.errors import InputError
from semisure.matchers.own_cues import cues_from_scores, fine_std_from_heatmap

torch = pytest.importorskip("torch")
pytest.importorskip("kornia")

from semisure.matchers import eloftr  # noqa: E402
from semisure.matchers.cues import (  # noqa: E402
    Cells,
    best_pixels,
    cell_windows,
    mutual_cells,
)
from semisure.matchers.loftr import LoFTR  # noqa: E402
from test_eloftr import maps  # noqa: E402

PAGE = Path(__file__).parents[1] / "docs" / "own_network.md"


class Hooked(torch.nn.Module):
    """A stage of the original code: what it does is given, hooks see its arguments."""

    def __init__(self, work) -> None:
        super().__init__()
        self.work = work

    def forward(self, *args, **kwargs):
        return self.work(*args, **kwargs)


class OriginalLoFTR(torch.nn.Module):
    """EfficientLoFTR's dictionary and stages, as its repository has them.

    Features are planted; what happens to them between the hooks is our adapter's, which
    tests/test_eloftr.py holds to the original.
    """

    def __init__(self, config) -> None:
        super().__init__()
        self.coarse, self.fine = maps((8, 10), (8, 10))
        self.coarse_matching = Hooked(self.match_coarse)
        self.fine_matching = Hooked(self.match_fine)

    def forward(self, data) -> None:
        data["hw1_c"] = self.coarse[1].shape[2:]
        tokens = [c.flatten(2).transpose(1, 2) for c in self.coarse]
        self.coarse_matching(*tokens, data, mask_c0=None, mask_c1=None)
        windows = (
            cell_windows(self.fine[0], data["i_ids"], side=8, margin=0),
            cell_windows(self.fine[1], data["j_ids"], side=10, margin=1),
        )
        self.fine_matching(*windows, data)

    def match_coarse(self, f0, f1, data, mask_c0, mask_c1) -> None:
        logits = f0[0] / (f0.shape[-1] * 0.1)
        cells = Cells(logits, f1[0], (8, 10), (8, 10))
        i, j, confidence = mutual_cells(cells, threshold=0.0)
        data.update(i_ids=i, j_ids=j, mconf=confidence)

    def match_fine(self, w0, w1, data) -> None:
        best0, best1, _ = best_pixels(w0, w1)
        data.update(idx_l=best0[:, None], idx_r=best1[:, None])
        heads = eloftr._heads(self.coarse, self.fine, 0.0)
        data["mkpts0_f"], data["mkpts1_f"] = (
            heads["source"] + 0.5,
            heads["target"] + 0.5,
        )


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The names that the page's blocks make, with the original code played."""
    package, module = ModuleType("src"), ModuleType("src.loftr")
    module.LoFTR, module.full_default_cfg = OriginalLoFTR, {}
    module.reparameter = lambda network: network
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    names: dict[str, object] = {"__name__": "docs"}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "src", package)
        patch.setitem(sys.modules, "src.loftr", module)
        patch.chdir(tmp_path_factory.mktemp("page"))
        made = []
        for block in blocks:
            exec(compile(block, PAGE.name, "exec"), names)  # noqa: S102
            made.append(dict(names))
    return made


@pytest.mark.slow
def test_hooks_on_kornias_loftr_give_the_cues_of_the_adapter(page, tmp_path) -> None:
    file = tmp_path / "same.ckpt"
    torch.save(page[1]["loftr"].state_dict(), file)
    adapter = LoFTR(weights=file, threshold=0.0)
    photo, hooked = page[1]["photo"], page[1]["kornia_matches"]
    expected = adapter(photo, photo)
    assert len(hooked) > 50
    assert len(hooked) == len(expected)
    for name in ("source", "target", "confidence", "fine_std", "coarse_std"):
        mine, theirs = getattr(hooked, name), getattr(expected, name)
        np.testing.assert_allclose(mine, theirs, rtol=1e-3, atol=1e-3, err_msg=name)


def test_hooks_on_the_original_eloftr_give_the_cues_of_the_adapter(page) -> None:
    blank = np.zeros((64, 80), np.uint8)
    matches = page[2]["match"](blank, blank)
    network = page[2]["matcher"]
    heads = eloftr._heads(network.coarse, network.fine, 0.0)
    assert len(matches) > 5
    for name in ("source", "target", "confidence", "fine_std", "coarse_std"):
        mine, theirs = getattr(matches, name), np.asarray(heads[name])
        np.testing.assert_allclose(mine, theirs, rtol=1e-4, atol=1e-5, err_msg=name)


# ---- the two functions ---------------------------------------------------------------


def scores(seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).normal(size=(600, 20)) * 3  # more than two tiles


def softmax(values: np.ndarray, axis: int) -> np.ndarray:
    weight = np.exp(values - values.max(axis=axis, keepdims=True))
    return weight / weight.sum(axis=axis, keepdims=True)


def test_confidence_and_spread_are_those_of_the_whole_matrix() -> None:
    s = scores()
    i, j = np.array([0, 255, 256, 599, 3]), np.array([4, 19, 0, 7, 7])
    rows, columns = softmax(s / 2, 1), softmax(s / 2, 0)
    x, y = np.arange(20) % 5, np.arange(20) // 5
    for name, confidence in (("dual", rows * columns), ("row", rows)):
        cues = cues_from_scores(
            s, i, j, grid=(4, 5), cell_px=(8, 4), temperature=2.0, softmax=name
        )
        np.testing.assert_allclose(cues.confidence, confidence[i, j], rtol=1e-12)
        for axis, (at, px) in enumerate(((x, 8), (y, 4))):
            mean = rows[i] @ at
            std = np.sqrt(rows[i] @ at**2 - mean**2)
            np.testing.assert_allclose(cues.coarse_std[:, axis], px * std, rtol=1e-9)


def test_probabilities_are_taken_at_their_word() -> None:
    half = np.zeros((1, 4))
    half[0, [0, 1]] = 0.5  # two cells side by side: 4 px either way
    cues = cues_from_scores(half, [0], [1], grid=(2, 2), softmax="none")
    assert cues.confidence.tolist() == [0.5]
    assert cues.coarse_std.tolist() == [[4.0, 0.0]]


def test_features_in_tiles_are_the_matrix_and_tensors_are_arrays() -> None:
    rng = np.random.default_rng(1)
    f0, f1 = rng.normal(size=(300, 8)), rng.normal(size=(20, 8))
    i, j = np.arange(0, 300, 7), np.arange(43) % 20
    whole = cues_from_scores(f0 @ f1.T, i, j, grid=(4, 5))
    tiled = cues_from_scores((f0, f1), i, j, grid=(4, 5))
    tensors = [torch.from_numpy(f).bfloat16().requires_grad_() for f in (f0, f1)]
    rough = cues_from_scores(tuple(tensors), torch.from_numpy(i), j, grid=(4, 5))
    np.testing.assert_allclose(tiled.coarse_std, whole.coarse_std, rtol=1e-12)
    np.testing.assert_allclose(tiled.confidence, whole.confidence, rtol=1e-12)
    np.testing.assert_allclose(rough.coarse_std, whole.coarse_std, rtol=0.2)


def test_no_matches_have_no_cues_and_huge_logits_no_overflow() -> None:
    none = cues_from_scores(scores(), [], [], grid=(4, 5))
    assert none.coarse_std.shape == (0, 2)
    sure, wrong = cues_from_scores(1e6 * np.eye(20), [3, 3], [3, 4], grid=(4, 5))[0]
    assert sure == 1.0
    assert 0 < wrong < 1e-9  # which Matches accepts


def test_heat_maps_by_hand() -> None:
    ramp = np.zeros((1, 3, 3))
    ramp[0, :, 1] = (0.25, 0.5, 0.25)  # a variance of half a step along y
    np.testing.assert_allclose(
        fine_std_from_heatmap(ramp, step_px=4), [[0, 4 * 0.5**0.5]], atol=1e-12
    )
    flat = fine_std_from_heatmap(np.zeros((2, 25)), softmax=True)  # of 5 × 5: √2 steps
    np.testing.assert_allclose(flat, 2**0.5)
    assert fine_std_from_heatmap(np.zeros((0, 3, 3)), softmax=True).shape == (0, 2)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"grid": (5, 5)}, "20 cells, but is"),
        ({"index1": [20]}, "from 0 to 19"),
        ({"index0": [0, 1]}, "have 2 and 1"),
        ({"scores": scores()[0]}, "two axes"),
        ({"scores": (np.ones((3, 2)), np.ones((4, 3)))}, "but have 2 and 3"),
        ({"softmax": "full"}, "softmax must be one of dual, row, none"),
        ({"softmax": "none"}, "must be probabilities"),
        ({"temperature": 0}, "temperature must be positive"),
    ],
)
def test_wrong_scores_get_one_sentence(changed: dict, words: str) -> None:
    right = {"scores": scores(), "index0": [0], "index1": [0], "grid": (4, 5)}
    with pytest.raises(InputError, match=words):
        cues_from_scores(**right | changed)


@pytest.mark.parametrize(
    ("heatmap", "words"),
    [
        (-np.ones((1, 3, 3)), "Logits need softmax=True"),
        (np.ones((1, 7)), r"but has \(1, 7\)"),
        ([[np.nan] * 9], "must be finite"),
    ],
)
def test_wrong_heat_maps_get_one_sentence(heatmap, words: str) -> None:
    with pytest.raises(InputError, match=words):
        fine_std_from_heatmap(heatmap)
