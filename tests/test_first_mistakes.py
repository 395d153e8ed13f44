"""What people get wrong in their first hour is told in a sentence that mends it."""

from __future__ import annotations

from pathlib import Path

import first_mistakes as script
import pytest
from typer.testing import CliRunner

from semisure.cli import app
from semisure.errors import SemisureError


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    made = tmp_path_factory.mktemp("first")
    script.prepare(made)
    return made


@pytest.mark.parametrize("mistake", script.MISTAKES, ids=lambda m: m.words[:30])
def test_a_first_mistake_is_told(mistake, folder: Path, monkeypatch) -> None:
    monkeypatch.chdir(folder)
    if "other.toml" in mistake.command and not Path("other.pt").exists():
        pytest.skip("needs torch and the weights of XFeat")
    if mistake.command:
        done = CliRunner().invoke(app, mistake.command.split(), env={"COLUMNS": "300"})
        assert done.exit_code in (1, 2)
        told = done.output if done.exit_code == 2 else str(done.exception)
    else:
        with pytest.raises(SemisureError) as refusal:
            exec(f"{script.SETUP}{mistake.python}", {})  # noqa: S102
        told = str(refusal.value)
    assert mistake.words in " ".join(told.split())
    assert "\n" not in told.strip() or done.exit_code == 2


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("semisure.residual(matches, np.eye(3))", "matches cannot be of type ndarray"),
        ("semisure.estimate_homography('pair.npz')", "semisure.load_matches(path)"),
        ("semisure.fit((matches, matches.source))", "fit([(matches, residual)])"),
        ("semisure.save_matches('pair.npz', matches)", "matches cannot be of type str"),
        ("semisure.load_calibration(None)", "a path cannot be None"),
        ("semisure.read_image(np.zeros((3, 3)))", "Arrays are images already"),
        ("semisure.expected_corner_error(None)", "refit.covariance, which is None"),
        ("semisure.load_matcher(matches)", "but is Matches(50 matches"),
    ],
)
def test_the_wrong_thing_in_the_right_place_is_told(typed: str, words: str) -> None:
    with pytest.raises(SemisureError) as refusal:
        exec(f"{script.SETUP}{typed}", {})  # noqa: S102
    assert words in str(refusal.value)
    assert len(str(refusal.value)) < 250


def test_lists_are_arrays() -> None:
    names: dict[str, object] = {}
    exec(  # noqa: S102
        f"{script.SETUP}"
        "H = np.eye(3).tolist()\n"
        "first = semisure.residual(H, matches)\n"
        "second = semisure.residual(np.eye(3), matches)\n"
        "error = semisure.expected_corner_error(np.eye(8).tolist())\n",
        names,
    )
    assert (names["first"] == names["second"]).all()
    assert abs(names["error"] - 1.2533141) < 1e-6  # √(π/2)
