"""The command line as a user meets it: in a process of its own."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from processes import write_photos
from semisure.cli import app
from semisure.datasets import samples
from semisure.errors import MissingExtraError
from semisure.io.files import save_calibration, save_matches
from semisure.io.images import write_png
from semisure.matchers import MATCHER_NAMES
from semisure.metrics import corner_error
from semisure.synthetic import EXAMPLE_CALIBRATION, SyntheticMatcher, random_homography

COMMAND = [sys.executable, "-m", "semisure"]


def semisure(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *map(str, arguments)], capture_output=True, text=True, check=False
    )


@pytest.fixture
def pair_files(tmp_path: Path) -> list[Path]:
    paths = []
    for i in range(3):
        H = random_homography(np.random.default_rng(i))
        matches, residual = SyntheticMatcher().match(H, count=500, seed=i)
        path = tmp_path / f"pair{i}.npz"
        truth = {"true_H_01": H} if i else {"residual": residual}
        save_matches(matches, path, **truth)
        paths.append(path)
    return paths


@pytest.fixture
def theta(tmp_path: Path) -> Path:
    save_calibration(EXAMPLE_CALIBRATION, tmp_path / "theta.json")
    return tmp_path / "theta.json"


def test_fit_then_refit(pair_files: list[Path], tmp_path: Path) -> None:
    theta = tmp_path / "theta.json"
    done = semisure("fit", *pair_files, "-o", theta, "--matcher", "synthetic")
    assert done.returncode == 0, done.stderr
    assert "1,500" in done.stdout
    assert "converged" in done.stdout
    out = tmp_path / "better.json"
    done = semisure("refit", pair_files[1], "-c", theta, "-o", out)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("500 matches: half of their errors within ")
    stored = json.loads(out.read_text())
    assert len(stored["weight"]) == 500
    truth = random_homography(np.random.default_rng(1))
    assert corner_error(np.array(stored["H_01"]), truth, (640, 480)) < 0.5


def test_what_was_estimated_is_not_taken_for_truth(
    pair_files: list[Path], theta: Path, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.npz"
    done = semisure("refit", pair_files[1], "-c", theta, "-o", saved)
    assert done.returncode == 0, done.stderr
    done = semisure("fit", saved, "-o", tmp_path / "own.json")
    assert done.returncode == 1
    assert "holds no truth" in done.stderr
    assert "Its H_01 is an estimate from these matches." in done.stderr
    assert not (tmp_path / "own.json").exists()


def test_too_few_matches_exit_with_three(theta: Path, tmp_path: Path) -> None:
    matches, _ = SyntheticMatcher().match(np.eye(3), count=3)
    save_matches(matches, tmp_path / "few.npz")
    done = semisure("refit", tmp_path / "few.npz", "-c", theta, "--json")
    assert done.returncode == 3
    assert "only 3 matches" in json.loads(done.stdout)["kept_initial_because"]


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["fit", "none.npz", "-o", "t.json"], 1, "There is no file none.npz"),
        (["fit", "{pair}", "-o", "t.json", "--law", "cauchy"], 2, "'cauchy' is not"),
        (["fit", "{pair}", "-o", "t.json", "--size", "big"], 2, "WIDTHxHEIGHT"),
        (["refit", "{pair}", "-c", "{pair}"], 1, "not a readable calibration"),
        (["match", "{pair}", "{pair}", "--config", "{theta}"], 1, "not a TOML file"),
        (["figt"], 2, "No such command"),
    ],
)
def test_mistakes_get_a_sentence_and_no_traceback(
    arguments, code, words, pair_files: list[Path], theta: Path
) -> None:
    paths = {"{pair}": pair_files[1], "{theta}": theta}
    done = semisure(*(paths.get(a, a) for a in arguments))
    assert done.returncode == code
    assert words in " ".join(done.stderr.split())
    assert "Traceback" not in done.stderr


@pytest.mark.slow
def test_demo_shows_real_photos_bettered(tmp_path: Path, monkeypatch) -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    monkeypatch.setattr("semisure.demo.VIEWS", 2)  # of each photo, instead of 3
    page = tmp_path / "demo.html"
    done = CliRunner().invoke(app, ["demo", "--json", "-o", str(page)])
    assert done.exit_code == 0, done.output
    result = json.loads(done.stdout)
    assert set(result["median_corner_error_px"]) == {"ransac", "magsac++"}
    for row in result["median_corner_error_px"].values():
        assert row["core+"] < row["core"] < row["base"]
        assert row["core+"] < 0.4
    expected, observed = (
        np.array(result[f"stereo_half_and_90_{which}_px"])
        for which in ("expected", "observed")
    )
    assert 0.1 < observed[0] < 1 < observed[1] < 5  # px
    ratio = expected / observed
    assert 0.4 < ratio.min() <= ratio.max() < 2.5
    text = page.read_text()
    assert text.count("data:image/png;base64,") == 1  # reliability
    assert text.count("data:image/jpeg;base64,") == 2  # the real pair, and its lines
    assert "://" not in text  # nothing is fetched


MAIN = "from semisure.cli import main; main()"
HEAVY = {"scipy", "matplotlib", "torch"}
NOT_FOR_A_MATCH = {
    "rich.console",
    *("semisure.law.fit_law", "semisure.calibrate.photos", "semisure.engine"),
    *("semisure.bench", "semisure.refit.poses", "semisure.refit.relative"),
    *("semisure.geometry.camera", "semisure.estimators.pose"),
    "semisure.estimators.relative",
}


@pytest.mark.parametrize(
    ("code", "words", "spared"),
    [
        ("import semisure", [], HEAVY | {"numpy", "cv2", "typer", "rich"}),
        (MAIN, ["--help"], HEAVY | {"numpy", "cv2", "fastapi"}),
        (MAIN, ["match", "a <b>.png", "b.png"], HEAVY | NOT_FOR_A_MATCH),
    ],
)
def test_no_more_is_loaded_than_is_needed(code, words, spared, photos) -> None:
    listed = f"import sys, atexit\natexit.register(lambda: print(*sys.modules))\n{code}"
    done = subprocess.run(
        [sys.executable, "-c", listed, *words],
        capture_output=True,
        text=True,
        check=True,
        cwd=photos[0].parent,
    )
    loaded = set(done.stdout.splitlines()[-1].split())
    assert loaded & spared == set()
    assert len([name for name in loaded if name.startswith("semisure")]) <= 70


def test_quiet_prints_nothing_but_what_json_asks_for(photos: list[Path]) -> None:
    done = semisure("match", *photos, "--quiet")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = semisure("match", *photos, "-q", "--json")
    assert json.loads(done.stdout)["related"]


@pytest.mark.skipif(sys.platform == "win32", reason="Ctrl-C is sent otherwise there")
def test_ctrl_c_keeps_what_is_done_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "photos").mkdir()
    write_photos(tmp_path / "photos")
    output = tmp_path / "theta.json"
    arguments = ["calibrate", "--photos", tmp_path / "photos", "-o", output]
    with subprocess.Popen(
        [*COMMAND, *map(str, arguments)],
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores Ctrl-C, and so would its children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as running:
        parts = tmp_path / "theta.json.parts"
        deadline = time.monotonic() + 60
        while not list(parts.glob("[!.]*")) and time.monotonic() < deadline:
            time.sleep(0.02)
        # Python drops an interrupt that meets a finaliser; a person presses again.
        while running.poll() is None and time.monotonic() < deadline + 30:
            running.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                running.wait(timeout=3)
        running.kill()
        _, stderr = running.communicate()
    assert running.returncode == 130
    assert "semisure: interrupted; files already written are complete" in stderr
    assert "Traceback" not in stderr
    assert not output.exists()
    assert [p for p in parts.iterdir() if not p.name.startswith(".")]


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    write_photos(tmp_path)
    names = {"0.png": "a <b>.png", "1.png": "b.png"}
    return [(tmp_path / old).rename(tmp_path / new) for old, new in names.items()]


def test_the_report_of_a_pair_is_one_file(photos: list[Path], tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = semisure("match", *photos, "--report", page, "-e", "ransac")
    assert done.returncode == 0, done.stderr
    text = page.read_text()
    assert text.count("data:image/jpeg;base64,") == 1 + 2 * 2  # matches, two sliders
    assert text.count('<dd class="meaning">') == text.count('<dd class="value">') == 10
    for words in ("expected corner error", "semisure.match(", "=&#x27;ransac&#x27;"):
        assert words in text
    assert "opencv-python-headless" in text
    assert "<b>.png" not in text  # escaped
    assert "://" not in text
    write_png(photos[1], np.zeros((240, 320), np.uint8))  # not one match
    done = semisure("match", *photos, "--report", page)
    assert done.returncode == 3, done.stdout
    text = page.read_text()
    assert "No homography" in text
    assert 'class="compare"' not in text


def test_what_is_not_installed_names_the_pip_line(monkeypatch, tmp_path) -> None:
    real = importlib.util.find_spec
    hidden = ("torch", "kornia", "skimage")
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda n: None if n in hidden else real(n)
    )
    monkeypatch.setattr(samples, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["demo", "-o", str(tmp_path / "demo.html")])
    assert isinstance(done.exception, MissingExtraError)
    assert "semisure[demo]" in str(done.exception)
    assert "semisure[torch]" in CliRunner().invoke(app, ["matchers"]).stdout
    listed = CliRunner().invoke(app, ["matchers", "--json"])
    rows = json.loads(listed.stdout)
    assert [row["name"] for row in rows] == list(MATCHER_NAMES)
    ready = [row["name"] for row in rows if row["status"].startswith("ready")]
    assert ready == ["daisy"]


def test_what_the_system_refuses_is_a_sentence(monkeypatch, capsys) -> None:
    from semisure import cli

    def full() -> None:
        raise OSError(28, "No space left on device", "/somewhere/parts")

    monkeypatch.setattr(cli, "_app_with", lambda names: full)
    with pytest.raises(SystemExit) as left:
        cli.main()
    assert left.value.code == 1
    sentence = "semisure: /somewhere/parts: No space left on device.\n"
    assert capsys.readouterr().err == sentence
