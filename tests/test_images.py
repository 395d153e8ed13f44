"""The image reader: every kind of file, and a sentence for each that is none."""

from __future__ import annotations

import io
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image

from semisure.errors import FileError
from semisure.io.images import (
    decode_image,
    find_images,
    read_image,
    upright_size,
    write_png,
)

RNG = np.random.default_rng(0)
PICTURE = cv2.GaussianBlur(RNG.integers(0, 256, (60, 90, 3), np.uint8), (0, 0), 2)


def encoded(suffix: str, image: np.ndarray = PICTURE) -> bytes:
    return cv2.imencode(suffix, image)[1].tobytes()


@pytest.mark.parametrize(
    "suffix", [".png", ".bmp", ".tiff", ".ppm", ".webp", ".jpg", ".jp2"]
)
def test_formats_are_read_as_rgb(suffix: str, tmp_path: Path) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(encoded(suffix))
    image = read_image(path)
    assert image.shape == (60, 90, 3)
    assert image.dtype == np.uint8
    # OpenCV wrote BGR, so that red is its last channel.
    gap = np.abs(image[:, :, 0].astype(int) - PICTURE[:, :, 2]).mean()
    assert gap < (4 if suffix in (".jpg", ".webp", ".jp2") else 1e-9)
    if suffix != ".ppm":
        assert decode_image(encoded(suffix, PICTURE[:, :, 0])).shape == (60, 90, 3)


def test_grey_alpha_cmyk_and_sixteen_bits_become_rgb_of_eight() -> None:
    grey = decode_image(encoded(".png", PICTURE[:, :, 0]))
    assert (grey[:, :, 0] == grey[:, :, 2]).all()
    alpha = np.dstack([PICTURE, np.full((60, 90), 7, np.uint8)])
    assert decode_image(encoded(".png", alpha)).shape == (60, 90, 3)
    # A thermal camera fills a sliver of its range; it is stretched, not cut to black.
    deep = (7000 + PICTURE[:, :, 0].astype(np.uint16)).astype(np.uint16)
    stretched = decode_image(encoded(".png", deep))
    assert stretched.min() == 0
    assert stretched.max() == 255
    correlation = np.corrcoef(stretched[:, :, 0].ravel(), deep.ravel())[0, 1]
    assert correlation > 0.99
    flat = decode_image(encoded(".png", np.full((20, 20), 900, np.uint16)))
    assert flat.std() == 0
    cmyk = io.BytesIO()
    Image.fromarray(PICTURE[:, :, ::-1]).convert("CMYK").save(cmyk, "JPEG", quality=95)
    red_first = PICTURE[:, :, ::-1]
    assert np.abs(decode_image(cmyk.getvalue()).astype(int) - red_first).mean() < 12


def test_exif_orientation_is_honoured() -> None:
    buffer, photo = io.BytesIO(), Image.fromarray(PICTURE[:, :, ::-1])
    exif = photo.getexif()
    exif[0x0112] = 6  # turn by 90° clockwise to view
    photo.save(buffer, "JPEG", quality=95, exif=exif)
    image = decode_image(buffer.getvalue())
    assert image.shape == (90, 60, 3)
    assert upright_size(buffer.getvalue()) == (60, 90)
    upright = np.rot90(PICTURE[:, :, ::-1], -1)
    assert np.abs(image.astype(int) - upright).mean() < 4


@pytest.mark.parametrize(
    ("data", "sentence"),
    [
        (b"", "is empty"),
        (b"not an image at all", "is no image that semisure reads"),
        (encoded(".jpg")[: len(encoded(".jpg")) // 2], "is truncated"),
        (encoded(".png")[:-40], "is truncated"),
    ],
)
def test_what_is_no_image_gets_one_sentence(data, sentence, tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    path.write_bytes(data)
    with pytest.raises(FileError, match=sentence) as caught:
        read_image(path)
    assert "a.jpg" in str(caught.value)
    with pytest.raises(FileError, match="There is no image"):
        read_image(tmp_path / "none.png")
    with pytest.raises(FileError, match="cannot be read"):
        read_image(tmp_path)


def test_folders_are_searched_in_order(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    for name in ("z.JPG", "a.png", "notes.txt", "b/c.tif"):
        (tmp_path / name).write_bytes(b"")
    names = [path.relative_to(tmp_path).as_posix() for path in find_images(tmp_path)]
    assert names == ["a.png", "b/c.tif", "z.JPG"]
    with pytest.raises(FileError, match="There is no folder"):
        find_images(tmp_path / "none")


def test_heic_photos_are_named_with_their_remedy(tmp_path: Path) -> None:
    photo = tmp_path / "IMG_1.HEIC"
    photo.write_bytes(b"\0\0\0\x18ftypheic\0\0\0\0mif1heic" + bytes(64))
    for read in (lambda: read_image(photo), lambda: find_images(tmp_path)):
        with pytest.raises(FileError, match="is a HEIC photo, which OpenCV does not"):
            read()
    write_png(tmp_path / "b.png", np.zeros((8, 8), np.uint8))
    assert [path.name for path in find_images(tmp_path)] == ["b.png"]
