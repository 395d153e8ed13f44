"""The tiled dual softmax against the N × N matrix that it never keeps."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from semisure.matchers import cues  # noqa: E402
from semisure.matchers.cues import Cells  # noqa: E402

SIZE0, SIZE1 = (9, 12), (14, 7)


def features(seed: int = 0) -> tuple:
    """Unlike grids that share 60 descriptors, so that many cells match."""
    generator = torch.Generator().manual_seed(seed)
    f0 = torch.randn(SIZE0[0] * SIZE0[1], 32, generator=generator)
    f1 = torch.randn(SIZE1[0] * SIZE1[1], 32, generator=generator)
    f1[20:80] = f0[30:90].flip(0) + 0.5 * f1[20:80]
    return f0 / 3, f1


def brute_force(f0, f1, threshold: float, border: int):
    similarity = (f0.double() @ f1.double().T).numpy()
    rows = torch.softmax(torch.from_numpy(similarity), 1).numpy()
    dual = rows * torch.softmax(torch.from_numpy(similarity), 0).numpy()
    (h0, w0), (h1, w1) = SIZE0, SIZE1
    cells = []
    for i in range(h0 * w0):
        j = int(dual[i].argmax())
        off0 = border <= i // w0 < h0 - border and border <= i % w0 < w0 - border
        off1 = border <= j // w1 < h1 - border and border <= j % w1 < w1 - border
        if off0 and off1 and dual[:, j].argmax() == i and dual[i, j] > threshold:
            cells.append((i, j))
    return cells, dual, rows


@pytest.mark.parametrize(("threshold", "border"), [(0.0, 0), (0.2, 0), (0.0, 2)])
def test_tiles_find_what_the_whole_matrix_holds(
    threshold: float, border: int, monkeypatch
) -> None:
    monkeypatch.setattr(cues, "TILE_ROWS", 7)  # 108 rows: the last tile is smaller
    monkeypatch.setattr(cues, "BORDER", border)
    f0, f1 = features()
    grids = Cells(f0, f1, SIZE0, SIZE1)
    i, j, confidence = cues.mutual_cells(grids, threshold=threshold)
    spread = cues.row_spread(grids, i)
    cells, dual, rows = brute_force(f0, f1, threshold, border)
    assert len(cells) > 5
    assert list(zip(i.tolist(), j.tolist(), strict=True)) == cells
    assert confidence.tolist() == pytest.approx(dual[i, j].tolist(), abs=1e-5)
    k = torch.arange(SIZE1[0] * SIZE1[1]).numpy()
    for axis, at in enumerate((k % SIZE1[1], k // SIZE1[1])):
        mean = rows[i] @ at
        std = np.sqrt((rows[i] * (at - mean[:, None]) ** 2).sum(axis=1))
        assert spread[:, axis].numpy() == pytest.approx(std, rel=1e-5, abs=1e-6)


def test_two_equal_peaks_by_hand() -> None:
    """Mass a half each in columns 1 and 5 of one row of cells: std 2 and 0 cells."""
    f1 = torch.full((7, 1), -50.0)
    f1[[1, 5]] = 0.0
    cells = Cells(torch.ones(1, 1), f1, (1, 1), (1, 7))
    assert cues.row_spread(cells, torch.tensor([0])).tolist() == [[2.0, 0.0]]
