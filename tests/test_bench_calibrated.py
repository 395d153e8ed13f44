"""The bench of laws on scenes that they have not seen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from semisure.bench.chances import BARS, chances
from semisure.bench.interval_scores import NUMBERS, Scores, bars, joined
from semisure.bench.outcome_files import write_outcome
from semisure.bench.scene_laws import Task, evaluate
from semisure.bench.scene_tasks import tasks_of
from semisure.bench.scenes import lessons, scenes_of

from bench_trees import texture
from semisure.bench.options import Options
from semisure.bench.run import of_study
from semisure.bench.study import Study
from semisure.engine import Engine
from semisure.io.files import load_calibration
from semisure.io.images import write_png
from semisure.law.mixture import ErrorLaw, sample
from test_bench_relative import PAIRS, write_list
from test_bench_study import add_sequence

ONE_PAIR = "\n".join(PAIRS.splitlines()[:2]) + "\n"


def made_up_law(count: int) -> ErrorLaw:
    """Fine scales from 0.2 to 2 px, coarse ones ten times, a tail of 0.1."""
    fine = np.repeat(np.geomspace(0.2, 2.0, count)[:, None], 2, axis=1)
    logit = np.full((count, 2), np.log(0.1 / 0.9))
    return ErrorLaw(fine, 10.0 * fine, logit, np.zeros((count, 2)))


def test_a_true_law_covers_what_it_says() -> None:
    law = made_up_law(40_000)
    scores = Scores.of(law, sample(law, np.random.default_rng(0)))
    numbers = scores.numbers()
    assert numbers["in 50 %"] == pytest.approx(50.0, abs=1.0)
    assert numbers["in 90 %"] == pytest.approx(90.0, abs=1.0)
    tail = numbers["> 8 px, predicted %"]
    assert numbers["> 8 px, observed %"] == pytest.approx(tail, rel=0.05)
    assert 0.9 < numbers["least ratio"] < numbers["largest ratio"] < 1.1
    met = bars(numbers)
    assert met.covers
    assert met.tail
    assert met.deciles


def test_a_law_twice_too_narrow_shows_in_every_number() -> None:
    law = made_up_law(40_000)
    wide = replace(
        law, fine_scale=2 * law.fine_scale, coarse_scale=2 * law.coarse_scale
    )
    numbers = Scores.of(law, sample(wide, np.random.default_rng(0))).numbers()
    assert numbers["in 50 %"] < 35
    assert numbers["largest ratio"] == pytest.approx(0.5, rel=0.1)
    assert numbers["mean |log ratio|"] == pytest.approx(np.log(2.0), rel=0.1)
    met = bars(numbers)
    assert not met.covers
    assert not met.tail
    assert not met.deciles


def test_scores_of_few_matches_are_unknown_and_those_of_parts_add_up() -> None:
    law = made_up_law(30)
    residual = sample(law, np.random.default_rng(0))
    whole = Scores.of(law, residual)
    parts = [Scores.of(law.take(k), residual[k]) for k in (slice(5), slice(5, None))]
    assert parts[0].numbers() == dict.fromkeys(NUMBERS)
    assert joined(parts).numbers() == whole.numbers()
    assert len(Scores.of(law.take(slice(0)), residual[:0])) == 0


# -- on small scenes


@pytest.fixture(scope="module")
def roots(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two scenes in depth, two planar sequences and four photos."""
    root = tmp_path_factory.mktemp("scenes")
    posed = [write_list(root / name, ONE_PAIR) for name in ("boards", "walls")]
    for k in (0, 1):
        add_sequence(root / "planar" / f"v_{k}", k)
    (root / "photos").mkdir()
    for k in range(4):
        write_png(root / "photos" / f"{k}.png", texture(k).astype(np.uint8))
    return [*posed, root / "planar", root / "photos"]


@pytest.fixture
def study(roots: list[Path], pool: Engine) -> Study:
    return Study(Options(data=roots, cache=roots[0].parent / "cache"), pool)


def test_scenes_and_what_is_learnt_from_them(study: Study) -> None:
    boards, walls, planar, photos = scenes_of(study, "daisy")
    assert boards.in_depth
    assert not planar.in_depth
    assert [len(scene.judged) for scene in (boards, walls, planar, photos)] == [
        1,
        1,
        2,
        2,
    ]
    assert not planar.learnt
    judged = {pair.group for pair in photos.judged}
    learnt = {pair.group for part in photos.learnt.values() for pair in part}
    assert judged == {"0.png", "2.png"}
    assert learnt == {"1.png", "3.png"}
    scenes = [boards, walls, planar, photos]
    views = {"photos 0", "photos 1"}
    assert set(lessons(scenes, "boards")) == {"walls"} | views
    assert set(lessons(scenes, "")) == {"boards", "walls"} | views


def test_every_law_on_every_scene_end_to_end(study: Study, tmp_path: Path) -> None:
    outcome = of_study("calibrated", study)
    laws = ["planar", "shipped", "left out", "adapted", "without truth", "with truth"]
    names = [f"daisy, {name}" for name in ("boards", "walls", "planar", "photos")]
    lines = {tuple(line[:2]): line for line in outcome.tables[0].rows}
    for name in names:
        assert [law for scene, law in lines if scene == name][:2] == laws[:2]
        assert {law for scene, law in lines if scene == name} >= set(laws)
        nll = {law: lines[name, law][9] for law in laws}
        assert nll["with truth"] < nll["shipped"]
    # Both scenes are alike: what one tells of the other's errors is nearly the truth.
    assert lines[names[0], "left out"][2] == pytest.approx(50.0, abs=15.0)
    # A plane's own lines tell nearly as much as its truth.
    assert lines[names[2], "without truth"][3] == pytest.approx(90.0, abs=6.0)
    assert lines[names[3], "without truth, adapted"][3] > 84.0
    depth = [line for line in outcome.tables[1].rows if line[1] == "with truth"]
    assert [line[-1] for line in depth] == [2, 2]
    effects = [row for row in outcome.rows if row["law"] == "adapted"]
    assert len(effects) == 6
    assert all(np.isfinite(row["fine"]) for row in effects)
    write_outcome("calibrated", study.options, outcome, tmp_path)
    for name in ("calibrated_rows.csv", "calibrated_bars.csv", "calibrated.png"):
        assert (tmp_path / name).is_file()


def test_a_scene_alone_has_no_law_of_others_but_a_given_one(
    study: Study, roots: list[Path]
) -> None:
    alone = study.on(roots[:1]).changed(calibration="daisy")
    tasks = tasks_of(alone, "daisy")
    assert {"left out", "adapted"}.isdisjoint(task.law for task in tasks)
    assert {"given", "with truth"} <= {task.law for task in tasks}
    assert "No other scene to learn from: boards." in study.log


def test_a_scene_of_too_few_matches_has_no_numbers(study: Study) -> None:
    (task,) = [t for t in tasks_of(study, "daisy") if _is(t, "boards", "with truth")]
    hidden = replace(task.pairs[0], truth=_moved_away(task))
    answer = evaluate(replace(task, pairs=[hidden]))
    assert answer["NLL"] is None
    assert answer["matches"] == 0
    shipped = replace(task, pairs=[hidden], calibration=load_calibration("daisy"))
    assert evaluate(shipped)["in 50 %"] is None


def _is(task: Task, data: str, law: str) -> bool:
    return (task.data, task.law) == (data, law)


def _moved_away(task: Task):
    """Cameras that see nothing in common."""
    truth = task.pairs[0].truth
    far = replace(truth.camera1, t=np.array([1e4, 0.0, 0.0]))
    return replace(truth, camera1=far)


# -- what a right law can hope for


def test_a_right_law_needs_many_matches_to_meet_the_deciles() -> None:
    """Of 100 a decile, one in 50 errs by 500 px: the mean of 10.5 moves by half."""

    def scores(count: int) -> Scores:
        one = np.ones((count, 2)) * np.linspace(0.5, 1.0, count)[:, None]
        law = ErrorLaw(one, 500.0 * one, np.log(1 / 49) * one / one, 0.0 * one)
        return Scores.of(law, sample(law, np.random.default_rng(0)))

    assert chances(scores(1_000))["deciles"] < 0.2
    assert min(chances(scores(100_000)).values()) > 0.9


def test_neighbours_that_err_together_leave_less_hope() -> None:
    """4,000 errors that 40 squares share are 40 errors: half of them lie in the
    interval of 50 %, give or take √(0.25 / 40), 8 points, or √(0.25 / 4,000), 0.8.
    """
    law = made_up_law(4_000)
    square = np.tile(np.arange(40), 100)
    rng = np.random.default_rng(0)
    sign = np.where(rng.random((4_000, 2)) < 0.5, -1.0, 1.0)
    size = np.where(np.arange(40) % 2, 0.4, 1.5)[square, None]  # half inside
    residual = law.fine_scale * size * sign
    alone = chances(Scores.of(law, residual))["covers"]
    together = chances(Scores.of(law, residual, square))["covers"]
    assert alone == 1.0
    assert 0.4 < together < 0.8  # 7 of 8 points: 62 % of a normal variable


def test_no_law_hopes_where_there_are_too_few_matches_for_deciles() -> None:
    law = made_up_law(5)
    assert chances(Scores.of(law, np.zeros((5, 2)))) == dict.fromkeys(BARS, 0.0)


def test_parts_have_squares_of_their_own() -> None:
    law = made_up_law(4)
    square = np.array([0, 0, 2, 2])
    part = Scores.of(law, np.zeros((4, 2)), square)
    assert joined([part, part]).square.tolist() == [0, 0, 2, 2, 3, 3, 5, 5]
