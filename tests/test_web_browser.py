"""The page in a real browser: drop, run, point, slide, download, go wrong."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from subprocess import Popen
from typing import Any

import pytest

from web_client import picture, serving, workers_of

webdriver = pytest.importorskip("selenium.webdriver", reason="needs selenium")
ui = pytest.importorskip("selenium.webdriver.support.ui", reason="needs selenium")
BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
if BROWSER is None or DRIVER is None:
    pytest.skip("needs chromium and chromedriver", allow_module_level=True)

DESKTOP = {"width": 1280, "height": 900, "deviceScaleFactor": 1, "mobile": False}
ARROW_LEFT, ARROW_RIGHT = "\ue012", "\ue014"
FLAGS = (
    "headless=new",
    "no-sandbox",
    "disable-gpu",
    "disable-dev-shm-usage",
    "force-prefers-reduced-motion",
)


@pytest.fixture(scope="module")
def served() -> Iterator[tuple[Popen[str], str]]:
    with serving() as (process, address):
        yield process, address


@pytest.fixture
def driver(served: tuple[Popen[str], str], tmp_path: Path) -> Iterator[Any]:
    """A browser that shows the page."""
    options = webdriver.ChromeOptions()
    for flag in FLAGS:
        options.add_argument(f"--{flag}")
    options.binary_location = BROWSER
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    service = webdriver.ChromeService(DRIVER)
    driver = webdriver.Chrome(options=options, service=service)
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", DESKTOP)
    saved = {"behavior": "allow", "downloadPath": str(tmp_path)}
    driver.execute_cdp_cmd("Browser.setDownloadBehavior", saved)
    driver.get(served[1])
    until(driver, lambda d: d.find_elements("css selector", "#matcher option"))
    yield driver
    driver.quit()


@pytest.fixture
def photos(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "first.png", tmp_path / "second.jpg"]
    for path, shift in zip(paths, (0, 12), strict=True):
        path.write_bytes(picture(shift, suffix=path.suffix))
    return paths


def by(driver: Any, name: str) -> Any:
    return driver.find_element("id", name)


def until(driver: Any, done: Callable[[Any], Any]) -> Any:
    return ui.WebDriverWait(driver, 30, poll_frequency=0.1).until(done)


def run(driver: Any) -> None:
    by(driver, "run").click()
    until(driver, lambda d: by(d, "run").is_enabled())
    assert not by(driver, "problem").is_displayed(), by(driver, "problem").text
    assert by(driver, "result").is_displayed()


def choose(driver: Any, photos: list[Path]) -> None:
    for k, photo in enumerate(photos):
        by(driver, f"file{k}").send_keys(str(photo))


def drop(driver: Any, slot: int, photos: list[Path]) -> None:
    """Files dragged in from outside and let go over a field, as a file manager does."""
    field = driver.find_element("css selector", f'.drop[data-slot="{slot}"]')
    box = field.rect
    files = {"items": [], "files": list(map(str, photos)), "dragOperationsMask": 1}
    where = {"x": box["x"] + box["width"] / 2, "y": box["y"] + box["height"] / 2}
    for kind in ("dragEnter", "dragOver", "drop"):
        event = {"type": kind, **where, "data": files}
        driver.execute_cdp_cmd("Input.dispatchDragEvent", event)
        if kind == "dragOver":
            assert "over" in field.get_attribute("class")


def test_drop_run_point_slide_download(driver, photos, tmp_path) -> None:
    by(driver, "run").click()
    assert "Image 1 is missing" in by(driver, "problem").text
    drop(driver, 0, photos)
    names = [e.text for e in driver.find_elements("css selector", ".drop small")]
    assert names == ["first.png", "second.jpg"]
    run(driver)
    assert "matches" in by(driver, "summary").text

    place, expected = driver.execute_script(
        "const {shown} = semisure, k = shown.order[5];"
        "return [shown.points[0][k], shown.page.columns.expected[k]]"
    )
    on_canvas(driver, place).perform()
    tip = until(driver, lambda d: by(d, "tip").is_displayed() and by(d, "tip"))
    assert f"expected error {expected:.2f} px" in " ".join(tip.text.split())
    assert "coarse cell wrong" in tip.text

    slider = by(driver, "slider")
    before = by(driver, "over").value_of_css_property("clip-path")
    slider.send_keys(ARROW_LEFT * 20)
    assert by(driver, "over").value_of_css_property("clip-path") != before
    assert by(driver, "line").get_attribute("style") == "left: 40%;"
    assert by(driver, "left-name").text == "image 2"
    assert by(driver, "right-name").text == "image 1 on it, by core+"
    ui.Select(by(driver, "left")).select_by_visible_text("difference, by base")
    assert by(driver, "left-name").text == "difference, by base"

    for name in ("json", "csv"):
        driver.execute_script("arguments[0].click()", by(driver, name))
        path = tmp_path / f"semisure.{name}"
        until(driver, lambda d, path=path: path.exists())
    by(driver, "report").click()
    until(driver, lambda d: (tmp_path / "semisure.html").exists())
    assert not by(driver, "problem").is_displayed()
    assert "One image over the other" in (tmp_path / "semisure.html").read_text()
    assert by(driver, "report").text == "Report (HTML)"
    H = json.loads((tmp_path / "semisure.json").read_text())["H_01"]
    assert abs(H[0][2] - 12) < 0.5
    errors = [e for e in driver.get_log("browser") if e["level"] == "SEVERE"]
    assert errors == []  # the content policy was not broken either


def on_canvas(driver: Any, place: list[float]) -> Any:
    """The pointer at a place of the canvas, ready for more."""
    canvas = by(driver, "matches")
    driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", canvas)
    x, y = place[0] - canvas.size["width"] / 2, place[1] - canvas.size["height"] / 2
    chain = webdriver.ActionChains(driver)
    return chain.move_to_element_with_offset(canvas, round(x), round(y))


def view(driver: Any) -> dict[str, Any]:
    script = "const {zoom, centers} = semisure.shown.view; return {zoom, centers}"
    return driver.execute_script(script)


def test_a_match_is_picked_zoomed_moved_and_estimated_again(driver, photos) -> None:
    choose(driver, photos)
    run(driver)
    place, (x, y) = driver.execute_script(
        "const {shown} = semisure, k = shown.order[5];"
        "return [shown.points[0][k], shown.page.columns.source[k]]"
    )
    on_canvas(driver, place).click().perform()
    numbers = by(driver, "picked-numbers").text
    assert f"{x:.1f}, {y:.1f}" in numbers
    assert "distance from the homography" in numbers
    assert "magnified" in by(driver, "picked-hint").text
    for _ in range(3):
        by(driver, "zoom-in").click()
    before = view(driver)
    assert before["zoom"] == pytest.approx(1.5**3)
    middle = driver.execute_script(
        "const [x, y, w, h] = semisure.shown.frames[0]; return [x + w / 2, y + h / 2]"
    )
    on_canvas(driver, middle).click_and_hold().move_by_offset(40, 0).release().perform()
    moved = view(driver)["centers"]
    assert moved[0][0] < before["centers"][0][0]  # dragged to the right
    assert moved[1] == before["centers"][1]
    by(driver, "matches").send_keys("0")
    assert view(driver)["zoom"] == 1
    on_canvas(driver, middle).double_click().perform()
    assert view(driver)["zoom"] == 2
    first = driver.execute_script("return semisure.shown.id")
    ui.Select(by(driver, "method")).select_by_value("core")
    by(driver, "again").click()
    until(driver, lambda d: d.execute_script("return semisure.shown.id") != first)
    assert driver.execute_script("return semisure.shown.page.chosen.method") == "core"
    choose(driver, photos[::-1])
    assert not by(driver, "again").is_displayed()  # other images: nothing was matched


@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks processes up in /proc")
def test_cancel_frees_the_page_and_the_server(served, driver, photos) -> None:
    choose(driver, photos)
    run(driver)
    held = workers_of(served[0].pid)
    for worker in held:
        os.kill(worker, signal.SIGSTOP)
    try:
        by(driver, "run").click()
        until(driver, lambda d: by(d, "clock").text)
        assert not by(driver, "run").is_enabled()
        by(driver, "cancel").click()
        until(driver, lambda d: by(d, "run").is_enabled())
    finally:
        for worker in set(held) & set(workers_of(served[0].pid)):
            os.kill(worker, signal.SIGCONT)
    assert by(driver, "note").text == "Cancelled."
    assert not by(driver, "problem").is_displayed()
    assert not by(driver, "busy").is_displayed()
    assert by(driver, "result").is_displayed()  # the one before is still there
    run(driver)
    assert not by(driver, "note").is_displayed()


def test_a_scene_in_depth_shows_the_line_of_the_match_under_the_pointer(
    driver, photos
) -> None:
    pytest.importorskip("skimage", reason="scikit-image carries the photos")
    choose(driver, photos)
    sample = driver.find_element("css selector", "#samples [value=motorcycle]")
    assert sample.find_element("tag name", "img").get_property("naturalWidth") == 192
    sample.click()
    names = [e.text for e in driver.find_elements("css selector", ".drop small")]
    assert names == ["sample: Motorcycle, a real stereo pair"] * 2  # not the files
    run(driver)
    assert "a scene in depth" in by(driver, "summary").text
    assert not by(driver, "overlay").is_displayed()
    assert by(driver, "matrix-name").text.startswith("Fundamental matrix")
    # The line is as light along the second image, whichever match is picked.
    by(driver, "matches").send_keys(ARROW_RIGHT * 9)
    bright = driver.execute_script(
        "const {shown} = semisure, k = shown.picked;"
        "const [x, y, w] = shown.frames[1]; const at = shown.points[1][k][1];"
        "const row = Math.round(at * shown.density);"
        "const strip = document.getElementById('matches').getContext('2d')"
        ".getImageData((x + 2) * shown.density, row - 2, w * shown.density - 4, 5);"
        "return strip.data.reduce((sum, v) => sum + v, 0) / strip.data.length;"
    )
    assert bright > 150
    assert "band ±" in by(driver, "picked-numbers").text
    assert "magnified" in by(driver, "picked-hint").text
    ui.Select(by(driver, "model")).select_by_value("homography")
    run(driver)
    assert by(driver, "overlay").is_displayed()
    phone = {**DESKTOP, "width": 390, "mobile": True}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    wide = driver.execute_script("return document.documentElement.scrollWidth")
    assert wide == 390
