"""The page's server: what it answers, what it refuses, and that it stays up."""

from __future__ import annotations

import csv
import io
import json
import re
import socket
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from fastapi.testclient import TestClient
from typer.testing import CliRunner

from semisure.cli import app as commands
from semisure.errors import SemisureError
from semisure.synthetic import EXAMPLE_CALIBRATION
from semisure.web import app, results
from semisure.web.app import STATIC, listen, make_app
from semisure.web.orders import (
    FIRST_USE,
    SAMPLES,
    Order,
)
from web_client import ADDRESS, SMALL, finish, page_of, picture, post


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with TestClient(make_app(limits=SMALL), base_url=ADDRESS) as client:
        yield client


# ---- results -------------------------------------------------------------------------


def test_two_images_give_matches_pictures_and_downloads(client: TestClient) -> None:
    job = finish(client, post(client, picture(), picture(9, suffix=".jpg")))
    page = page_of(client, job)
    at = f"/api/jobs/{job['id']}"
    assert page["related"]
    assert page["H_01"][0][2] == pytest.approx(9, abs=0.5)
    n = page["matches"]
    assert {len(column) for column in page["columns"].values()} == {n}
    assert [arm["name"] for arm in page["arms"]] == ["base", "core", "core+"]
    assert page["arms"][2]["chosen"]
    assert page["arms"][2]["expected_corner_error_px"] > 0
    assert all(fact["meaning"] for fact in page["numbers"])
    assert len(page["pictures"]) == 6
    for name in ("image0", "image1", *page["pictures"]):
        content = client.get(f"{at}/{name}.jpg").content
        assert cv2.imdecode(np.frombuffer(content, np.uint8), 1) is not None
    whole = client.get(f"{at}/semisure.json")
    assert "attachment" in whole.headers["content-disposition"]
    assert len(whole.json()["expected_abs_error"]) == n
    rows = list(csv.DictReader(io.StringIO(client.get(f"{at}/semisure.csv").text)))
    assert len(rows) == n
    assert float(rows[0]["within_90"]) > float(rows[0]["median_abs_error"]) > 0
    assert page["lines"] is None  # a plane has none to show
    for name in ("semisure.html", "..%2f..%2fetc%2fpasswd", "app.py"):
        assert client.get(f"{at}/{name}").status_code == 404


def test_matches_are_estimated_again_without_the_images(client: TestClient) -> None:
    job = finish(client, post(client, picture(), picture(9)))
    page = page_of(client, job)
    same = page_of(client, finish(client, post(client, again=job["id"])))
    assert same["H_01"] == page["H_01"]
    wanted = {"method": "core", "threshold": "1.5", "seed": "7", "estimator": "ransac"}
    again = finish(client, post(client, again=job["id"], report="yes", **wanted))
    assert (again["state"], again["stage"]) == ("done", "Writing the report")
    other = page_of(client, again)
    assert other["columns"]["source"] == page["columns"]["source"]
    assert {name: other["chosen"][name] for name in wanted} == wanted
    answer = client.get(f"/api/jobs/{again['id']}/semisure.html")
    digest = sha256(picture()).hexdigest()[:16]
    for words in ("image1 and image2", "core", "ransac", "1.5", "seed", digest):
        assert words in answer.text
    assert "://" not in answer.text
    gone = post(client, again="nobody-knows-this")
    assert gone.status_code == 404


def test_samples_need_no_upload_and_a_scene_in_depth_has_lines() -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    with TestClient(make_app(), base_url=ADDRESS) as client:
        menu = client.get("/api/menu").json()
        assert set(menu["samples"]) == set(SAMPLES)
        for row in menu["matchers"]:
            remedies = "semisure fetch|pip install|download"
            assert not row["why_not"] or re.search(remedies, row["why_not"])
        assert not menu["matchers"][0]["why_not"]  # daisy is ready
        job = finish(client, post(client, sample="motorcycle"))
        page = page_of(client, job)
        assert page["model"] == "fundamental"
        assert page["pictures"] == []
        assert len(page["arms"]) == 3
        lines, n = page["lines"], page["matches"]
        assert {len(column) for column in lines.values()} == {n}
        target, line = np.array(page["columns"]["target"]), np.array(lines["line"])
        distance = (target * line[:, :2]).sum(axis=1) + line[:, 2]
        on_target = np.array(page["columns"]["side"]) == 1
        wanted = np.array(lines["distance"])
        np.testing.assert_allclose(distance[on_target], wanted[on_target], atol=0.05)
        refused = post(client, sample="motorcycle", model="essential")
        assert "field of view" in refused.json()["detail"]
        again = {"again": job["id"], "model": "essential", "fov": "41"}
        page = page_of(client, finish(client, post(client, **again)))
        assert page["model"] == "essential"
        assert 0 < page["rotation_std_deg"] < 5
        thumbnail = client.get("/api/samples/motorcycle.jpg").content
        pixels = cv2.imdecode(np.frombuffer(thumbnail, np.uint8), 1)
        assert pixels.shape == (72, 192, 3)
        assert client.get("/api/samples/nothing.jpg").status_code == 404


def test_a_matcher_without_a_law_gets_one_by_its_first_job(monkeypatch) -> None:
    """The stages tell how far it is; the worker does what the command line does."""
    law, stages, asked = replace(EXAMPLE_CALIBRATION, matcher="daisy"), [], []

    def made(matcher: object, *, first_use: Any) -> Any:
        asked.append(matcher)
        first_use.begin("Matching views")(2, 60)
        return law

    monkeypatch.setattr(results, "calibration_for", made)
    files = {"image0": picture(), "image1": picture(9)}
    order = Order(files=files, calibration=FIRST_USE)
    made_files = results.result_files(order, {}, stages.append)
    assert len(asked) == 1
    assert "Calibrating daisy, once: Matching views, 2 of 60" in stages
    assert json.loads(made_files["page.json"])["chosen"]["calibration"] == FIRST_USE


def test_ones_own_calibration_can_be_offered() -> None:
    own = {"mine": replace(EXAMPLE_CALIBRATION, matcher="daisy")}
    with TestClient(make_app(calibrations=own), base_url=ADDRESS) as client:
        assert "mine" in client.get("/api/menu").json()["matchers"][0]["calibrations"]
        job = finish(client, post(client, picture(), picture(9), calibration="mine"))
        whole = client.get(f"/api/jobs/{job['id']}/semisure.json").json()
        assert whole["chosen"]["calibration"] == "mine"


@pytest.mark.parametrize(
    ("data", "words"),
    [(picture()[:-600], "Image 1 is truncated"), (b"hello", "Image 1 is no image")],
)
def test_what_fails_to_decode_fails_its_job_alone(
    client: TestClient, data: bytes, words: str
) -> None:
    job = finish(client, post(client, data, picture()))
    assert job["state"] == "failed"
    assert words in job["message"]
    assert client.get(f"/api/jobs/{job['id']}/page.json").status_code == 409


# ---- refusals ------------------------------------------------------------------------


def test_the_page_asks_nobody_else_and_may_not(client: TestClient) -> None:
    for path in ("", *(file.name for file in STATIC.iterdir())):
        answer = client.get(f"/{path}")
        assert answer.status_code == 200
        text = answer.text.replace("http://www.w3.org/2000/svg", "")
        assert "http://" not in text
        assert "https://" not in text
    answer = client.get("/")
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'none'; script-src")
    assert "unsafe" not in policy
    assert "style=" not in answer.text  # the policy forbids both
    assert "onclick" not in answer.text
    for path in ("/docs", "/..%2fapp.py", "/api/jobs/none"):
        missing = client.get(path)
        assert missing.status_code == 404
        assert missing.headers["x-content-type-options"] == "nosniff"
    assert client.get("/app.js").headers["content-type"].startswith("text/javascript")


def test_other_sites_get_no_answer(client: TestClient) -> None:
    for host in ("evil.example", "evil.example@127.0.0.1.x"):
        assert client.get("/api/menu", headers={"host": host}).status_code == 400
    foreign = {"origin": "http://evil.example"}
    for headers in foreign, {"origin": "null"}, {"sec-fetch-site": "cross-site"}:
        answer = client.post("/api/jobs", data={"sample": "coffee"}, headers=headers)
        assert answer.status_code == 403


PAIR = [picture(), picture()]


@pytest.mark.parametrize(
    ("files", "fields", "status", "words"),
    [
        ([picture()], {}, 422, "One image is missing"),
        (PAIR, {"threshold": "0"}, 422, "threshold_px must be positive"),
        ([picture(), bytes(700_001)], {}, 413, "The upload is larger"),
        (PAIR, {"calibration": "/etc/passwd"}, 422, "calibration must be one of daisy"),
    ],
)
def test_what_cannot_be_used_gets_one_sentence(
    client: TestClient, files, fields, status, words
) -> None:
    answer = post(client, *files, **fields)
    assert answer.status_code == status
    assert words in answer.json()["detail"]


def test_a_taken_port_gets_a_sentence() -> None:
    with (
        listen("localhost", 0) as taken,
        pytest.raises(SemisureError, match="cannot be used"),
    ):
        listen("localhost", taken.getsockname()[1])


def test_other_machines_need_the_printed_address(monkeypatch) -> None:
    pages: list[Any] = []

    def keep(page: Any, listener: socket.socket) -> None:
        listener.close()
        pages.append(page)

    monkeypatch.setattr(app, "serve", keep)
    everybody = ["--host", "0.0.0.0"]  # noqa: S104
    done = CliRunner().invoke(commands, ["serve", *everybody, "--port", "0"])
    address = done.stdout.split()[1]
    with TestClient(pages[0], base_url=address.partition("/?")[0]) as stranger:
        for path in ("/", "/app.js", "/api/menu", "/?token=wrong", "/?token=é"):
            answer = stranger.get(path, headers={"host": "localhost"})
            assert answer.status_code == 403
            assert "address that semisure serve printed" in answer.json()["detail"]
        assert stranger.post("/api/jobs").status_code == 403
        entered = stranger.get(address)
        assert (entered.status_code, entered.url.query) == (200, b"")
        assert "HttpOnly" in entered.history[0].headers["set-cookie"]
        assert stranger.get("/api/menu").status_code == 200
    CliRunner().invoke(commands, ["serve", "--port", "0"])
    with TestClient(pages[1], base_url=ADDRESS) as owner:
        assert owner.get("/api/menu").status_code == 200


# ---- damaged uploads -----------------------------------------------------------------


def test_fuzzed_uploads_leave_the_server_up_and_the_disk_as_it_was(
    client: TestClient, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    rng = np.random.default_rng(0)
    for k in range(30):
        data = bytearray(picture(suffix=(".png", ".jpg", ".webp")[k % 3]))
        for at in rng.integers(0, 400, 8):
            data[at] = rng.integers(256)
        name = (f"{tmp_path}/evil.png", "../../evil", "a\x00b")[k % 3]
        files = {"image0": (name, bytes(data)), "image1": ("x", b"not an image")}
        answer = client.post("/api/jobs", files=files)
        assert answer.status_code == 400 or finish(client, answer)["state"] == "failed"
    assert client.get("/api/menu").status_code == 200
    assert list(tmp_path.iterdir()) == []
