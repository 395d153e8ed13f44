"""XFeat*: the library's own matches, and cues equal to a brute-force softmax."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
kornia = pytest.importorskip(
    "kornia", minversion="0.9", reason="kornia 0.9 is not installed"
)
pytest.importorskip("skimage", reason="scikit-image carries the photos")

import network_parity as parity  # noqa: E402
from semisure.calibrate.random_views import random_pair  # noqa: E402
from semisure.demo import sample_folder  # noqa: E402
from semisure.errors import FileError, InputError  # noqa: E402
from semisure.io.images import Image, read_image, reduced  # noqa: E402
from semisure.matchers.weights import WEIGHTS, locate  # noqa: E402
from semisure.matchers.xfeat import (  # noqa: E402
    RawXFeatStar,
    XFeatStar,
    softmax_moments,
)
from semisure.types import Matcher  # noqa: E402

needs_weights = pytest.mark.skipif(
    locate(WEIGHTS["xfeat-star"]) is None,
    reason="XFeat's weights are not on this machine",
)


@pytest.fixture(scope="module")
def random_weights(tmp_path_factory) -> Path:
    """Seeded weights in the official layout."""
    torch.manual_seed(0)
    path = tmp_path_factory.mktemp("weights") / "random.pt"
    torch.save(kornia.feature.XFeat().net.state_dict(), path)
    return path


@pytest.fixture(scope="module")
def images() -> tuple[Image, Image]:
    photo = reduced(read_image(sample_folder() / "astronaut.png"), 320)
    image0, image1, _ = random_pair(photo, np.random.default_rng(0))
    return image0, image1[:, 40:]  # of different sizes


def own_matches(model, image0: Image, image1: Image, top_k: int):
    tensors = [
        torch.from_numpy(i.transpose(2, 0, 1).copy())[None].float() / 255
        for i in (image0, image1)
    ]
    return [p.numpy() for p in model.match_xfeat_star(*tensors, top_k=top_k)]


def test_matches_are_the_librarys_own(random_weights: Path, images) -> None:
    xfeat = RawXFeatStar(weights=random_weights, top_k=1000)
    assert isinstance(xfeat, Matcher)
    matches = xfeat(*images)
    source, target = own_matches(xfeat.model, *images, 1000)
    assert len(matches) == len(source)
    if len(source):
        assert np.abs(matches.source - source).max() < 1e-4
        assert np.abs(matches.target - target).max() < 1e-4
    assert (matches.side == 0).all()
    # Offsets run from −4 to 3 of the keypoint's own pixels.
    assert matches.in_cell(matches.source).all()
    sides = 2 * np.abs(matches.cell[:, 0, 0])
    np.testing.assert_allclose(sides, matches.fine_window)


@needs_weights
def test_official_weights_give_the_librarys_matches_and_true_cues(images) -> None:
    xfeat = RawXFeatStar(top_k=1500)
    matches = xfeat(*images)
    source, target = own_matches(xfeat.model, *images, 1500)
    assert len(matches) == len(source) > 100
    assert np.abs(matches.source - source).max() < 1e-4
    assert np.abs(matches.target - target).max() < 1e-4
    confidence, coarse, fine = brute_force(xfeat, *images)
    assert matches.confidence == pytest.approx(confidence, abs=1e-5)
    assert matches.coarse_std == pytest.approx(coarse, rel=1e-4, abs=1e-4)
    assert matches.fine_std == pytest.approx(fine, abs=1e-5)


@needs_weights
def test_points_of_both_images_move_to_the_middles_of_their_cells(images) -> None:
    """By half a cell, 8 px at 0.6 or 1.3 of the size, less half a pixel.

    Image 0 is seen at half its size, so that its cells and pixels are twice as large.
    """
    image0 = cv2.resize(images[0], None, fx=2, fy=2)
    raw, centred = (
        kind(max_side=max(images[0].shape))(image0, images[1])
        for kind in (RawXFeatStar, XFeatStar)
    )
    assert len(raw) == len(centred) > 100
    moved = centred.target - raw.target
    steps = np.array([4 / 0.6 - 0.5, 4 / 1.3 - 0.5])
    assert np.abs(moved[..., None] - steps).min(axis=2).max() < 1e-3
    cell = centred.fine_window[:, None]
    assert sorted({*cell.ravel().round(3)}) == pytest.approx([16 / 1.3, 16 / 0.6], 1e-3)
    # The middle of the library's steps in a cell, −4 to 3 eighths, is half of one more.
    moved = centred.source - raw.source - cell / 16
    assert moved == pytest.approx((cell / 2 - 1.0) * np.ones(2), abs=1e-3)
    assert centred.in_cell(centred.source).all()


def brute_force(xfeat: XFeatStar, image0: Image, image1: Image):
    """The cues by the paper's words, from whole matrices in float64."""
    with torch.inference_mode():
        d0, d1 = (
            xfeat.model.detectAndComputeDense(
                torch.from_numpy(i.transpose(2, 0, 1).copy())[None].float() / 255,
                top_k=xfeat.top_k,
            )
            for i in (image0, image1)
        )
        f0, f1 = d0["descriptors"][0], d1["descriptors"][0]
        i0, i1 = xfeat.model._batch_match(f0[None], f1[None])[0]
        logits = xfeat.model.net.fine_matcher(torch.cat([f0[i0], f1[i1]], -1)).double()
        heat = torch.softmax(3 * logits, -1)
        kept = heat.max(-1).values > 0.25
        i0, i1, heat = i0[kept], i1[kept], heat[kept].numpy()
        unit0, unit1 = (torch.nn.functional.normalize(f.double()) for f in (f0, f1))
        cosine = unit1 @ unit0.T / xfeat.temperature
        rows, columns = torch.softmax(cosine, 1), torch.softmax(cosine, 0)
        confidence = (rows * columns)[i1, i0].numpy()
        row, at = rows[i1].numpy(), d0["keypoints"][0].double().numpy()
        coarse = np.sqrt(np.maximum(row @ at**2 - (row @ at) ** 2, 0))
        scale = d0["scales"][0][i0].numpy()
        fine = parity.softmax_std(np.log(heat), (8, 8), 1.0)
    return confidence, coarse, fine * scale[:, None]


def test_wrong_weights_and_images_get_one_sentence(
    tmp_path: Path, random_weights: Path
) -> None:
    bad = tmp_path / "bad.pt"
    torch.save({"some.key": torch.zeros(3)}, bad)
    with pytest.raises(FileError, match="not this network's checkpoint: Missing key"):
        XFeatStar(weights=bad)
    xfeat = XFeatStar(weights=random_weights)
    with pytest.raises(InputError, match="at least 64 px"):
        xfeat(np.zeros((20, 300, 3), np.uint8), np.zeros((200, 300, 3), np.uint8))


def test_two_equal_peaks_by_hand() -> None:
    """Mass a half each at 1 and at 5 px: a std of 2 px."""
    logits = torch.full((1, 7), -50.0)
    logits[0, [1, 5]] = 0.0
    positions = torch.stack([torch.arange(7.0), torch.zeros(7)], dim=1)
    entry, std = softmax_moments(logits, positions, torch.tensor([1]))
    assert entry.tolist() == pytest.approx([0.5])
    assert std.tolist()[0] == pytest.approx([2.0, 0.0])
