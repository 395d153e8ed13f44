"""The notebook: it runs from its first cell to its last and prints what it stores."""

from __future__ import annotations

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs the extra docs")
pytest.importorskip("nbclient", reason="needs the extra docs")
page = pytest.importorskip("notebook_page")


@pytest.fixture
def stored():
    return nbformat.read(page.NOTEBOOK, as_version=4)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of the kernel's process, not ours
def test_the_notebook_runs_and_prints_what_it_stores(stored) -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    pytest.importorskip("ipykernel", reason="needs the extra docs")
    assert page.differences(stored, page.executed()) == []


def test_its_page_has_its_code_its_outputs_and_its_picture(stored) -> None:
    text = page.page(stored)
    assert text.startswith("# semisure in ten minutes")
    assert "semisure.match(left, right)" in text
    assert "effective inliers" in text
    assert text.count("data:image/jpeg;base64,") == 1


def test_it_opens_in_colab(stored) -> None:
    nbformat.validate(stored)
    assert stored.metadata.kernelspec.name == "python3"
    code = [cell.source for cell in stored.cells if cell.cell_type == "code"]
    assert "pip" in code[0]  # installs semisure where it is missing
    assert "://" not in "".join(code)
