"""LoFTR: kornia's own matches. Its cues: GIM's parity, and test_own_network.py."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")
kornia = pytest.importorskip(
    "kornia", minversion="0.9", reason="kornia 0.9 is not installed"
)

from semisure.errors import InputError  # noqa: E402
from semisure.io.images import Image  # noqa: E402
from semisure.matchers import load_matcher, name_of  # noqa: E402
from semisure.matchers.loftr import LoFTR  # noqa: E402
from semisure.types import Matcher  # noqa: E402


@pytest.fixture(scope="module")
def weights(tmp_path_factory) -> Path:
    """Seeded weights in the official layout, spread enough that cells differ."""
    torch.manual_seed(0)
    state = kornia.feature.LoFTR(pretrained=None).state_dict()
    for name, values in state.items():
        if name.endswith("running_mean"):
            values.normal_(0.0, 0.1)
        if name.endswith("running_var"):
            values.uniform_(0.5, 1.5)
    last = state["backbone.layer3_outconv.weight"]
    last.sub_(last.mean(dim=1, keepdim=True)).mul_(1.5)
    state["fine_preprocess.merge_feat.weight"].mul_(0.2)
    path = tmp_path_factory.mktemp("weights") / "random.ckpt"
    torch.save({"state_dict": {f"matcher.{k}": v for k, v in state.items()}}, path)
    return path


def texture() -> Image:
    noise = np.random.default_rng(0).integers(0, 255, (26, 26, 3), np.uint8)
    return np.asarray(cv2.resize(noise, (208, 208), interpolation=cv2.INTER_CUBIC))


# Landscape with portrait, and sides that are no multiples of 8.
IMAGES = texture()[:96, :136], texture()[16:141, 8:111]


def own_matches(model, image0: Image, image1: Image, threshold: float):
    tensors = [
        torch.from_numpy(cv2.cvtColor(i, cv2.COLOR_RGB2GRAY))[None, None].float() / 255
        for i in (image0, image1)
    ]
    model.coarse_matching.thr = threshold
    with torch.inference_mode():
        out = model({"image0": tensors[0], "image1": tensors[1]})
    return {name: t.numpy() for name, t in out.items()}


@pytest.mark.parametrize("threshold", [0.0, 0.01])
def test_matches_are_the_librarys_own(weights: Path, threshold: float) -> None:
    loftr = LoFTR(weights=weights, threshold=threshold)
    matches = loftr(*IMAGES)
    own = own_matches(loftr.model, *IMAGES, threshold)
    assert len(matches) == len(own["keypoints0"]) >= (10 if threshold == 0 else 0)
    # The library's frame has its origin at the corner of the first pixel.
    assert np.abs(matches.source + 0.5 - own["keypoints0"]).max() < 1e-4
    assert np.abs(matches.target + 0.5 - own["keypoints1"]).max() < 1e-4
    assert matches.confidence == pytest.approx(own["confidence"], abs=1e-5)
    assert (matches.side == 1).all()
    assert (matches.fine_window == 8.0).all()
    # Cells of 8 px about the grid's points; the window ends at their edges.
    grid = (matches.cell[:, :, 2] + 0.5) / 8
    assert grid == pytest.approx(np.round(grid), abs=1e-9)
    assert (matches.cell[:, :, :2] == 4.0 * np.eye(2)).all()
    assert matches.in_cell(matches.target).all()


def test_variants_differ_in_the_position_encoding_only(weights: Path) -> None:
    for name in ("loftr", "loftr-indoor", "loftr-indoor-new"):
        matcher = load_matcher(name, weights=weights)
        assert isinstance(matcher, Matcher)
        assert name_of(matcher) == name
        encoding = matcher.model.pos_encoding  # type: ignore[attr-defined]
        assert encoding.temp_bug_fix == (name == "loftr-indoor-new")


def test_what_is_wrong_gets_one_sentence(weights: Path) -> None:
    loftr = LoFTR(weights=weights)
    with pytest.raises(InputError, match="at least 40 px a side, but one has 300 × 20"):
        loftr(np.zeros((20, 300), np.uint8), IMAGES[0])
    with pytest.raises(InputError, match="daisy is not a network: it takes no weights"):
        load_matcher("daisy", weights=weights)
