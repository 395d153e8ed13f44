"""Which images are worth matching."""

from __future__ import annotations

import numpy as np
import pytest
from typer.testing import CliRunner

from semisure.cli import app
from semisure.errors import InputError
from semisure.io.images import write_png
from semisure.matchers.similar import describe_image, most_alike
from semisure.pairs.lists import similar_pairs


def scene(seed: int, shift: int = 0, size: tuple[int, int] = (20, 30)) -> np.ndarray:
    """A made-up photo of a scene, seen `shift` px further right."""
    blobs = np.random.default_rng(seed).normal(size=size)
    whole = np.uint8(128 + 40 * np.clip(blobs, -3, 3)).repeat(8, 0).repeat(8, 1)
    return np.ascontiguousarray(whole[:, shift : shift + 200])


@pytest.fixture
def photos(tmp_path):
    """Three scenes, three photos of each, names in no order of theirs."""
    for k in range(9):
        write_png(tmp_path / f"{k}.png", scene(k % 3, 12 * (k // 3)))
    return tmp_path


def test_photos_of_one_scene_find_each_other(photos):
    names = [f"{k}.png" for k in range(9)]
    pairs = similar_pairs(photos, names, 2)
    assert len(pairs) == 9  # three of each scene, which is all there are
    assert all(int(a[0]) % 3 == int(b[0]) % 3 for a, b in pairs)


def test_an_image_that_shows_nothing_is_like_no_other():
    grey = np.full((200, 200), 128, np.uint8)
    vectors = [describe_image(image) for image in (scene(0), grey, scene(0, 8))]
    assert not vectors[1].any()
    assert most_alike(vectors, 2) == [(0, 2)]
    with pytest.raises(InputError, match="At least 1"):
        most_alike(vectors, 0)


def test_brightness_contrast_and_size_hardly_change_a_description():
    photo, other = (scene(k).repeat(2, 0).repeat(2, 1) for k in (0, 1))  # 400 px
    usual = describe_image(photo)
    darker = describe_image(np.uint8(20 + 0.5 * photo))
    larger = describe_image(photo.repeat(2, 0).repeat(2, 1))
    assert usual @ darker > 0.97
    assert usual @ larger > 0.97 > 0.9 > usual @ describe_image(other)


def test_match_pairs_takes_the_similar_ones(photos, tmp_path):
    pytest.importorskip("pyarrow")
    from semisure.io.store import Store

    store = tmp_path / "store"
    words = ["--similar", "1", "--model", "none", "--workers", "0", "--quiet", "-o"]
    result = CliRunner().invoke(app, ["match-pairs", str(photos), *words, str(store)])
    assert result.exit_code == 0, result.output
    for pair in Store.at(store).summaries():
        assert int(pair.image0[0]) % 3 == int(pair.image1[0]) % 3
