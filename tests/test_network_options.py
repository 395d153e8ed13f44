"""What all networks share: strips, precision, memory order. On the CPU, no download."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import network_parity as parity  # noqa: E402
from semisure.errors import InputError  # noqa: E402
from semisure.matchers import load_matcher  # noqa: E402
from semisure.matchers._cues import single  # noqa: E402
from semisure.matchers._resnet import doubled  # noqa: E402
from semisure.matchers._strips import doubled_rows, in_strips  # noqa: E402
from semisure.types import Matches  # noqa: E402


@pytest.fixture(scope="module")
def photos() -> tuple[np.ndarray, np.ndarray]:
    """A smooth random picture, and the same 5 px to the left and 3 px up."""
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.random((1, 1, 18, 24)).astype(np.float32))
    large = torch.nn.functional.interpolate(noise, size=(144, 192), mode="bicubic")
    picture = (255 * large[0, 0].clamp(0, 1)).byte().numpy()
    return picture[:96, :128].copy(), picture[3:99, 5:133].copy()


def test_strips_give_what_the_whole_gives_if_the_halo_is_wide_enough() -> None:
    torch.manual_seed(0)
    x = torch.randn(1, 3, 31, 17)
    net = torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3, padding=1),
        torch.nn.ReLU(),
        torch.nn.Conv2d(4, 5, 3, padding=1),
    )

    def gap(halo: int) -> float:
        cut = in_strips(lambda rows: net(x[:, :, rows]), 31, halo=halo, strip_rows=7)
        return float((cut - net(x)).detach().abs().max())

    assert gap(2) < 1e-6
    assert gap(1) > 1e-2  # two convolutions reach two rows


@pytest.mark.parametrize("rows", [slice(0, 62), slice(5, 9), slice(60, 62)])
def test_rows_of_a_doubled_map_are_those_of_the_whole(rows: slice) -> None:
    x = torch.randn(1, 3, 31, 17, generator=torch.Generator().manual_seed(1))
    whole = doubled(x, align_corners=True)
    assert (doubled_rows(x, rows) - whole[:, :, rows]).abs().max() < 1e-5


def test_single_precision_holds_where_the_network_runs_in_less() -> None:
    a = torch.linspace(0, 1, 600).view(20, 30)
    with torch.autocast("cpu", torch.bfloat16):
        rough, exact = a @ a.T, single(torch.matmul)(a, a.T)
    assert rough.dtype == torch.bfloat16
    assert exact.dtype == torch.float32
    assert (exact - a @ a.T).abs().max() < 1e-5


QUICK_IN_FLOAT16 = ("xfeat-star", "edm")


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for the seeded weights of all networks."""
    return tmp_path_factory.mktemp("weights")


# With random weights EfficientLoFTR finds a handful: its features are compared instead.
@pytest.fixture(scope="module", params=[n for n in parity.NETWORKS if n != "eloftr"])
def whole(
    request: pytest.FixtureRequest, photos: tuple[np.ndarray, np.ndarray], weights: Path
) -> tuple[str, Matches]:
    """A network's name, and its matches in single precision."""
    return request.param, parity.random_matcher(request.param, weights)(*photos)


def compared(
    whole: tuple[str, Matches],
    photos: tuple[np.ndarray, np.ndarray],
    weights: Path,
    **options: object,
) -> tuple[float, float, float]:
    """Share of matches found again within 1 px, medians of their distance and stds.

    The distance is in px, the stds are the coarse ones over those of the whole.
    """
    name, full = whole
    assert len(full) > 20
    other = parity.random_matcher(name, weights, **options)(*photos)
    rows = [np.hstack([m.source, m.target]) for m in (full, other)]
    apart = np.abs(rows[0][:, None] - rows[1]).max(axis=2)
    again = apart.min(axis=1) < 1
    ratio = other.coarse_std[apart.argmin(axis=1)[again]] / full.coarse_std[again]
    if "precision" in options:  # it did run in less
        assert not np.array_equal(other.fine_std, full.fine_std)
    return again.mean(), np.median(apart.min(axis=1)[again]), float(np.median(ratio))


@pytest.mark.slow
def test_memory_order_changes_no_answer(
    whole: tuple[str, Matches], photos: tuple[np.ndarray, np.ndarray], weights: Path
) -> None:
    share, apart, ratio = compared(whole, photos, weights, channels_last=True)
    assert share > 0.98
    assert apart < 1e-3
    assert ratio == pytest.approx(1.0, abs=1e-3)


# bfloat16 has two to three digits, float16 three to four; points lie in windows of
# 8 px, and where random weights find two cells equally good, rounding decides.
@pytest.mark.slow
@pytest.mark.parametrize(
    ("precision", "least", "most_px"), [("bfloat16", 0.6, 0.4), ("float16", 0.85, 0.08)]
)
def test_half_precision_finds_nearly_the_same(
    precision: str,
    least: float,
    most_px: float,
    whole: tuple[str, Matches],
    photos: tuple[np.ndarray, np.ndarray],
    weights: Path,
) -> None:
    if precision == "float16" and whole[0] not in QUICK_IN_FLOAT16:
        pytest.skip("a processor takes minutes for it")
    share, apart, ratio = compared(whole, photos, weights, precision=precision)
    assert share > least
    assert apart < most_px
    assert ratio == pytest.approx(1.0, abs=0.1)


@pytest.mark.slow
def test_efficientloftr_has_features_within_the_precision(weights: Path) -> None:
    pytest.importorskip("transformers")
    from semisure.matchers.eloftr import _transform

    def coarse(**options: object) -> torch.Tensor:
        eloftr: Any = parity.random_matcher("eloftr", weights, **options)
        generator = torch.Generator().manual_seed(0)
        images = torch.rand(2, 1, 1, 64, 96, generator=generator)
        with eloftr.running():
            maps = [eloftr.model.efficientloftr.backbone(image)[-1] for image in images]
            return _transform(eloftr.model, maps, normalise=True)[1].float()

    def gap(**options: object) -> float:
        return float((coarse(**options) - whole).abs().mean() / whole.abs().mean())

    whole = coarse()
    assert gap(channels_last=True) < 1e-4
    assert 0 < gap(precision="bfloat16") < 0.1


def test_a_precision_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="precision must be one of float32, bfloat16"):
        load_matcher("edm", precision="int8")  # type: ignore[arg-type]


def test_the_embedded_matcher_takes_no_precision() -> None:
    with pytest.raises(InputError, match="not a network: it takes no precision"):
        load_matcher("daisy", precision="bfloat16")
