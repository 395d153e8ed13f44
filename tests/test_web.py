"""The page's server: what it answers, what it refuses, and that it stays up."""

from __future__ import annotations

import csv
import hashlib
import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from web_client import ADDRESS, SMALL, finish, picture, png_of_size, post

pytest.importorskip("fastapi", reason="needs the extra web")

from fastapi.testclient import TestClient

from semisure.errors import FileError, SemisureError
from semisure.io.images import IMAGE_SUFFIXES
from semisure.matchers import describe_matchers
from semisure.synthetic import EXAMPLE_CALIBRATION
from semisure.web import results, samples
from semisure.web.app import FILES, make_app
from semisure.web.limits import Limits
from semisure.web.orders import FIRST_USE, STAGES, Order
from semisure.web.queue import Job
from semisure.web.uploads import check_upload


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(make_app(limits=SMALL), base_url=ADDRESS) as client:
        yield client


def test_two_images_give_matches_pictures_and_downloads(client: TestClient) -> None:
    job = finish(client, post(client, picture(), picture(9, suffix=".jpg")))
    assert job["state"] == "done", job
    at = f"/api/jobs/{job['id']}"
    page = client.get(f"{at}/page").json()
    assert page["related"]
    assert page["H_01"][0][2] == pytest.approx(9, abs=0.5)
    n = page["matches"]
    assert {len(column) for column in page["columns"].values()} == {n}
    assert {arm["name"] for arm in page["arms"]} == {"base", "core", "core+"}
    assert page["arms"][2]["chosen"]
    assert page["arms"][2]["expected_corner_error_px"] > 0
    assert len(page["corners"]["regions"]) == 4
    assert all(fact["meaning"] for fact in page["numbers"])
    for name in page["pictures"]:
        answer = client.get(f"{at}/picture/{name}")
        assert answer.headers["content-type"] == "image/jpeg"
        assert cv2.imdecode(np.frombuffer(answer.content, np.uint8), 1) is not None
    whole = client.get(f"{at}/semisure.json")
    assert "attachment" in whole.headers["content-disposition"]
    assert len(whole.json()["expected_abs_error"]) == n
    rows = list(csv.DictReader(io.StringIO(client.get(f"{at}/semisure.csv").text)))
    assert len(rows) == n
    assert client.get(f"{at}/semisure.html").status_code == 404  # was not ordered
    assert float(rows[0]["coarse_failure"]) >= 0
    assert float(rows[0]["within_90"]) > float(rows[0]["median_abs_error"]) > 0
    assert page["lines"] is None  # a plane has none to show


def test_the_report_of_a_pair_can_be_had_from_the_page(client: TestClient) -> None:
    files = picture(), picture(9)
    job = finish(client, post(client, *files, report="yes"))
    assert (job["state"], job["stage"]) == ("done", "Writing the report")
    assert job["step"] == job["steps"] - 1
    answer = client.get(f"/api/jobs/{job['id']}/semisure.html")
    assert "attachment" in answer.headers["content-disposition"]
    digest = hashlib.sha256(files[0]).hexdigest()[:16]
    for words in ("image1 and image2", "method=&#x27;core+&#x27;", digest, "numpy"):
        assert words in answer.text
    assert "://" not in answer.text
    refused = post(client, *files, report="/etc/passwd")
    assert refused.status_code == 422
    assert refused.json()["detail"] == "report must be one of yes."


def test_samples_need_no_upload() -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    with TestClient(make_app(), base_url=ADDRESS) as client:
        assert "coffee" in client.get("/api/menu").json()["samples"]
        job = finish(client, post(client, sample="coffee", method="core"))
        page = client.get(f"/api/jobs/{job['id']}/page").json()
        assert page["related"]
        assert page["method"] == "core"


def test_a_scene_in_depth_has_lines_and_no_overlay() -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    with TestClient(make_app(), base_url=ADDRESS) as client:
        assert "auto" in client.get("/api/menu").json()["models"]
        job = finish(client, post(client, sample="motorcycle"))
        page = client.get(f"/api/jobs/{job['id']}/page").json()
        assert page["model"] == "fundamental"
        assert page["pictures"] == ["image0", "image1"]
        assert page["corners"] is None
        assert len(page["arms"]) == 3
        lines, n = page["lines"], page["matches"]
        assert {len(column) for column in lines.values()} == {n}
        target = np.array(page["columns"]["target"])
        line, on_target = np.array(lines["line"]), np.array(lines["side"]) == 1
        distance = (target * line[:, :2]).sum(axis=1) + line[:, 2]
        wanted = np.array(lines["distance"])
        np.testing.assert_allclose(distance[on_target], wanted[on_target], atol=0.05)
        refused = post(client, sample="motorcycle", model="essential")
        assert refused.status_code == 422
        assert "field of view" in refused.json()["detail"]
        again = {"again": job["id"], "model": "essential", "fov": "41"}
        job = finish(client, post(client, **again))
        page = client.get(f"/api/jobs/{job['id']}/page").json()
        assert page["model"] == "essential"
        assert 0 < page["rotation_std_deg"] < 5


@pytest.mark.slow
def test_a_network_runs_through_the_page() -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    status = {row.name: row.status for row in describe_matchers()}["xfeat-star"]
    if not status.startswith("ready"):
        pytest.skip(f"XFeat*: {status}")
    limits = Limits(workers=1)
    with TestClient(make_app(limits=limits), base_url=ADDRESS) as client:
        chosen = {"matcher": "xfeat-star", "calibration": "xfeat-star"}
        job = finish(client, post(client, sample="coffee", **chosen))
        assert job["state"] == "done", job
        page = client.get(f"/api/jobs/{job['id']}/page").json()
        assert page["related"]
        assert page["chosen"]["matcher"] == "xfeat-star"


def test_matches_are_estimated_again_without_the_images(client: TestClient) -> None:
    job = finish(client, post(client, picture(), picture(9)))
    page = client.get(f"/api/jobs/{job['id']}/page").json()
    wanted = {"method": "core", "threshold": "1.5", "seed": "7", "estimator": "ransac"}
    again = finish(client, post(client, again=job["id"], **wanted))
    other = client.get(f"/api/jobs/{again['id']}/page").json()
    assert other["columns"]["source"] == page["columns"]["source"]
    assert {name: other["chosen"][name] for name in wanted} == wanted
    assert other["method"] == "core"
    assert other["H_01"][0][2] == pytest.approx(9, abs=0.5)
    report = finish(client, post(client, again=again["id"], report="yes", **wanted))
    text = client.get(f"/api/jobs/{report['id']}/semisure.html").text
    for words in ("method=&#x27;core&#x27;", "threshold_px=1.5", "seed=7"):
        assert words in text
    assert hashlib.sha256(picture()).hexdigest()[:16] in text
    gone = post(client, again="nobody-knows-this")
    assert gone.status_code == 404
    assert "no longer kept" in gone.json()["detail"]


def test_the_same_settings_again_give_the_same_model(client: TestClient) -> None:
    job = finish(client, post(client, picture(), picture(9)))
    again = finish(client, post(client, again=job["id"]))
    first, second = (
        client.get(f"/api/jobs/{name}/page").json()["H_01"]
        for name in (job["id"], again["id"])
    )
    assert first == second


@pytest.mark.parametrize("suffix", sorted(IMAGE_SUFFIXES))
def test_every_format_of_the_command_line_can_be_uploaded(
    client: TestClient, suffix: str
) -> None:
    assert suffix in client.get("/api/menu").json()["suffixes"]
    job = finish(client, post(client, picture(suffix=suffix), picture(9)))
    page = client.get(f"/api/jobs/{job['id']}/page").json()
    assert page["H_01"][0][2] == pytest.approx(9, abs=0.5)


def test_a_matcher_that_is_not_ready_says_why_and_what_to_do(
    client: TestClient,
) -> None:
    rows = client.get("/api/menu").json()["matchers"]
    for row in rows:
        assert bool(row["why_not"]) == bool(row["command"])
        if row["why_not"]:
            assert row["name"] in row["why_not"]
            command = row["command"].split()[0]
            assert command in ("semisure", "pip", "mkdir")
    assert not next(row for row in rows if row["name"] == "daisy")["why_not"]


def test_a_matcher_without_a_law_gets_one_by_its_first_job(monkeypatch) -> None:
    """The stages tell how far it is; the worker does what the command line does."""
    law, stages, asked = replace(EXAMPLE_CALIBRATION, matcher="daisy"), [], []

    def made(matcher: object, *, first_use: Any) -> Any:
        asked.append(matcher)
        tick = first_use.begin("Matching views")
        tick(1, 60)
        tick(2, 60)
        return law

    monkeypatch.setattr(results, "calibration_for", made)
    order = Order(files=(picture(), picture(9)), calibration=FIRST_USE)
    files = results.result_files(order, {}, SMALL, stages.append)
    assert len(asked) == 1
    assert "Calibrating daisy, once: Matching views, 2 of 60" in stages
    assert json.loads(files["page.json"])["chosen"]["calibration"] == FIRST_USE
    job = Job(order, "loftr")
    for stage in stages:
        job.begin_stage(stage)
    assert job.step == len(STAGES)  # the calibration is one more step, not sixty


def test_samples_have_thumbnails(client: TestClient) -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    answer = client.get("/api/samples/motorcycle.jpg")
    assert answer.headers["content-type"] == "image/jpeg"
    pixels = cv2.imdecode(np.frombuffer(answer.content, np.uint8), 1)
    assert pixels.shape == (72, 192, 3)
    assert client.get("/api/samples/nothing.jpg").status_code == 404


def test_each_sample_is_a_pair() -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    for name in samples.SAMPLES:
        image0, image1 = samples.load_sample(name)
        assert image0.ndim == image1.ndim == 3
    with pytest.raises(SemisureError, match="sample must be one of"):
        samples.load_sample("../../etc/passwd")


def test_the_page_asks_nobody_else_and_may_not(client: TestClient) -> None:
    for path in ("/", *(f"/{name}" for name in FILES if name)):
        answer = client.get(path)
        assert answer.status_code == 200
        text = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
    head = client.get("/").headers
    assert head["content-security-policy"].startswith("default-src 'none'; script-src")
    assert "unsafe" not in head["content-security-policy"]
    assert head["x-content-type-options"] == "nosniff"
    page = client.get("/").text
    assert "style=" not in page  # the policy forbids both
    assert "onclick" not in page
    assert client.get("/docs").status_code == 404
    missing = client.get("/api/jobs/none")
    assert missing.status_code == 404
    assert missing.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:8321", 200),
        ("localhost", 200),
        ("[::1]:8321", 200),
        ("evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("evil.example@127.0.0.1.x", 403),
        ("[::1", 403),
        ("", 403),
    ],
)
def test_only_known_host_names_are_answered(
    client: TestClient, host: str, status: int
) -> None:
    assert client.get("/api/menu", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
    ],
)
def test_other_sites_cannot_post(client: TestClient, headers: dict[str, str]) -> None:
    answer = client.post("/api/jobs", data={"sample": "coffee"}, headers=headers)
    assert answer.status_code == 403


@pytest.mark.parametrize(
    ("files", "fields", "status", "words"),
    [
        ([], {}, 422, "sample must be one of"),
        ([picture()], {}, 422, "Image 2 is missing"),
        ([picture(), b""], {}, 422, "Image 2 is empty"),
        ([b"hello", picture()], {}, 422, "Image 1 is no image that semisure reads"),
        ([picture(), b"GIF89a" + bytes(50)], {}, 422, "Image 2 is no image"),
        ([picture(), b"<svg/>"], {}, 422, "Image 2 is no image"),
        ([picture(), picture()], {"threshold": "0"}, 422, "threshold must be a number"),
        ([picture(), picture()], {"threshold": "nan"}, 422, "from 0.01 to 1000"),
        ([picture(), picture()], {"seed": "1.5"}, 422, "seed must be a whole number"),
        ([picture(), picture()], {"fov": "180"}, 422, "fov must be a number from 1"),
        ([png_of_size(60_000, 60_000), picture()], {}, 422, "60000 × 60000 pixels"),
        ([png_of_size(600, 600, 16), picture()], {}, 422, "600 × 600 pixels"),
        ([picture(), bytes(300_001)], {}, 413, "Image 2 has 0 MB, more than"),
        ([picture(), bytes(700_001)], {}, 413, "The upload is larger"),
        ([picture(), picture()], {"matcher": "x"}, 422, "matcher must be one of"),
        ([picture(), picture()], {"matcher": "loftr"}, 422, "matcher must be one of"),
        ([picture(), picture()], {"method": "x"}, 422, "method must be one of"),
        ([picture(), picture()], {"estimator": ""}, 422, "estimator must be one of"),
        (
            [picture(), picture()],
            {"calibration": "/etc/passwd"},
            422,
            "calibration must be one of daisy",
        ),
    ],
)
def test_what_cannot_be_used_gets_one_sentence(
    client: TestClient, files, fields, status, words
) -> None:
    answer = post(client, *files, **fields)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_too_many_files_or_fields_are_refused(client: TestClient) -> None:
    three = [(f"image{k}", ("x", picture())) for k in range(3)]
    assert client.post("/api/jobs", files=three).status_code == 400
    fields = {f"field{k}": "x" for k in range(50)}
    answer = client.post("/api/jobs", files=three[:1], data=fields)
    assert answer.status_code == 400


def test_a_body_of_no_stated_length_is_cut_off(client: TestClient) -> None:
    def body() -> Iterator[bytes]:
        named = b'form-data; name="image0"; filename="a"'
        yield b"--x\r\nContent-Disposition: " + named + b"\r\n\r\n"
        for _ in range(100):
            yield bytes(100_000)

    kind = {"content-type": "multipart/form-data; boundary=x"}
    answer = client.post("/api/jobs", content=body(), headers=kind)
    assert answer.status_code == 413
    assert "larger than" in answer.json()["detail"]


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (picture()[:-600], "truncated"),
        (picture(suffix=".jpg")[:-600], "truncated"),
        (png_of_size(200, 200), ""),
    ],
)
def test_what_fails_to_decode_fails_its_job_alone(
    client: TestClient, data: bytes, words: str
) -> None:
    job = finish(client, post(client, data, picture()))
    if words:
        assert job["state"] == "failed"
        assert words in job["message"]
        assert client.get(f"/api/jobs/{job['id']}/page").status_code == 409
    assert client.get("/api/menu").status_code == 200


def fuzzed(data: st.DataObject) -> bytes:
    """Random bytes, or a real image cut, spliced or with flipped bytes."""
    start = data.draw(st.sampled_from([b"", *map(picture_of, SUFFIXES)]))
    if not start:
        head = data.draw(st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff"]))
        return head + data.draw(st.binary(max_size=300))
    mangled = bytearray(start[: data.draw(st.integers(1, len(start)))])
    for _ in range(data.draw(st.integers(0, 6))):
        mangled[data.draw(st.integers(0, min(len(mangled), 200) - 1))] = data.draw(
            st.integers(0, 255)
        )
    return bytes(mangled)


SUFFIXES = (".png", ".jpg", ".webp", ".bmp", ".tif", ".jp2", ".pgm")


def picture_of(suffix: str) -> bytes:
    return picture(side=64, suffix=suffix)


@settings(max_examples=150, suppress_health_check=[HealthCheck.data_too_large])
@given(st.data())
def test_fuzzed_uploads_are_images_within_limits_or_refused(
    data: st.DataObject,
) -> None:
    upload = fuzzed(data)
    try:
        check_upload(upload, "It", SMALL)
        images = results._images(Order(files=(upload, upload)), SMALL)
    except FileError:
        return
    assert images[0].shape[0] * images[0].shape[1] <= SMALL.pixels


def test_fuzzed_uploads_leave_the_server_up_and_the_disk_as_it_was(
    client: TestClient, tmp_path: Path, monkeypatch
) -> None:
    import tempfile

    temporary, here = tmp_path / "tmp", tmp_path / "here"
    temporary.mkdir()
    here.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    monkeypatch.chdir(here)
    rng = np.random.default_rng(0)
    bases = [picture(), picture(suffix=".jpg"), picture(suffix=".webp"), b""]
    for k in range(40):
        data = bytearray(bases[k % 4] or rng.bytes(500))
        for at in rng.integers(0, min(len(data), 400), 8):
            data[at] = rng.integers(256)
        name = ("../../evil.png", "/etc/evil", "C:\\evil", "a\x00b")[k % 4]
        files = {"image0": (name, bytes(data)), "image1": ("x", b"not an image")}
        assert client.post("/api/jobs", files=files).status_code in (400, 422)
    assert client.get("/api/menu").status_code == 200
    assert list(temporary.iterdir()) == list(here.iterdir()) == []


def test_a_jpeg_of_a_thousand_scans_is_refused() -> None:
    data = picture(suffix=".jpg")
    with pytest.raises(FileError, match="more than 100 scans"):
        check_upload(data + b"\xff\xda" * 1000, "It", SMALL)


def test_two_users_at_once_get_their_own_results() -> None:
    with TestClient(make_app(), base_url=ADDRESS) as client:
        answers = [
            post(client, picture(), picture(shift)).json()["id"] for shift in (5, 11)
        ]
        shifts = []
        for name in answers:
            while client.get(f"/api/jobs/{name}").json()["state"] != "done":
                time.sleep(0.05)
            page = client.get(f"/api/jobs/{name}/page").json()
            shifts.append(round(page["H_01"][0][2]))
    assert shifts == [5, 11]


def test_a_full_queue_says_so_over_http(client: TestClient) -> None:
    answers = [post(client, picture(), picture(9)) for _ in range(6)]
    full = [answer for answer in answers if answer.status_code == 503]
    assert full
    assert "Try again" in full[0].json()["detail"]
    for answer in answers:
        if answer.status_code == 202:
            assert finish(client, answer)["state"] == "done"


def test_ones_own_calibration_can_be_offered() -> None:
    own = {"mine": replace(EXAMPLE_CALIBRATION, matcher="daisy")}
    with TestClient(make_app(calibrations=own), base_url=ADDRESS) as client:
        daisy = client.get("/api/menu").json()["matchers"][0]
        assert "mine" in daisy["calibrations"]
        job = finish(client, post(client, picture(), picture(9), calibration="mine"))
        whole = client.get(f"/api/jobs/{job['id']}/semisure.json").json()
        assert whole["chosen"]["calibration"] == "mine"
        assert json.dumps(whole)


def test_images_without_a_match_are_an_outcome(client: TestClient) -> None:
    blank = cv2.imencode(".png", np.zeros((100, 100), np.uint8))[1].tobytes()
    job = finish(client, post(client, blank, picture()))
    assert job["state"] == "done", job
    page = client.get(f"/api/jobs/{job['id']}/page").json()
    assert not page["related"]
    assert client.get(f"/api/jobs/{job['id']}/semisure.csv").status_code == 200


def test_serve_without_its_extra_names_the_pip_line(monkeypatch) -> None:
    from typer.testing import CliRunner

    from semisure.cli import app, serve
    from semisure.errors import MissingExtraError

    monkeypatch.setattr(serve, "find_spec", lambda name: None)
    done = CliRunner().invoke(app, ["serve"])
    assert isinstance(done.exception, MissingExtraError)
    assert "pip install 'semisure[web]'" in str(done.exception)


def test_a_taken_port_gets_a_sentence() -> None:
    from semisure.web.app import listen

    with listen("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SemisureError, match="cannot be used"):
            listen("127.0.0.1", port)
