"""The page in a second engine: Firefox, spoken to in WebDriver BiDi, no driver."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from web_client import picture, serving

websocket = pytest.importorskip("websocket", reason="needs websocket-client")
FIREFOX = shutil.which("firefox-esr") or shutil.which("firefox")
if FIREFOX is None:
    pytest.skip("needs firefox", allow_module_level=True)


class Firefox:
    """A headless browser with one page."""

    def __init__(self, address: str) -> None:
        self.socket = websocket.create_connection(
            f"{address}/session", suppress_origin=True, timeout=60
        )
        self.count = itertools.count(1)
        self.errors: list[str] = []
        self.call("session.new", capabilities={})
        self.call("session.subscribe", events=["log.entryAdded"])
        tree = self.call("browsingContext.getTree")
        self.page = tree["contexts"][0]["context"]

    def call(self, method: str, **params: Any) -> Any:
        number = next(self.count)
        command = {"id": number, "method": method, "params": params}
        self.socket.send(json.dumps(command))
        while True:
            message = json.loads(self.socket.recv())
            if message.get("method") == "log.entryAdded":
                if message["params"]["level"] == "error":
                    self.errors.append(message["params"]["text"])
            elif message.get("id") == number:
                assert message["type"] == "success", message
                return message["result"]

    def evaluate(self, expression: str) -> Any:
        """The value of an expression that JSON can carry."""
        answer = self.call(
            "script.evaluate",
            expression=f"JSON.stringify({expression})",
            target={"context": self.page},
            awaitPromise=True,
        )
        assert answer["type"] == "success", answer
        return json.loads(answer["result"].get("value", "null"))

    def until(self, expression: str) -> Any:
        deadline = time.monotonic() + 60
        while not (value := self.evaluate(expression)):
            assert time.monotonic() < deadline, expression
            time.sleep(0.1)
        return value

    def choose(self, name: str, path: Path) -> None:
        place = self.call(
            "script.evaluate",
            expression=f"document.getElementById({name!r})",
            target={"context": self.page},
            awaitPromise=False,
        )
        element = {"sharedId": place["result"]["sharedId"]}
        self.call(
            "input.setFiles", context=self.page, element=element, files=[str(path)]
        )

    def point_at(self, x: float, y: float, *, click: bool = False) -> None:
        steps: list[dict[str, Any]] = [
            {"type": "pointerMove", "x": round(x), "y": round(y)}
        ]
        if click:
            steps += [{"type": k, "button": 0} for k in ("pointerDown", "pointerUp")]
        source = {"type": "pointer", "id": "mouse", "actions": steps}
        self.call("input.performActions", context=self.page, actions=[source])

    def click(self, name: str) -> None:
        box = (
            "(e => { e.scrollIntoView({block: 'center'}); "
            "const b = e.getBoundingClientRect(); "
            "return [b.x + b.width / 2, b.y + b.height / 2]; })"
        )
        self.point_at(
            *self.evaluate(f"{box}(document.getElementById({name!r}))"), click=True
        )


@pytest.fixture
def firefox(tmp_path: Path) -> Iterator[Firefox]:
    profile = tmp_path / "profile"
    profile.mkdir()
    still = 'user_pref("ui.prefersReducedMotion", 1);\n'
    (profile / "user.js").write_text(still)
    assert FIREFOX is not None
    flags = ("--headless", "--no-remote", "--remote-debugging-port", "0")
    with subprocess.Popen(
        [FIREFOX, *flags, "--profile", str(profile)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as running:
        assert running.stderr is not None
        try:
            match = None
            while match is None and (line := running.stderr.readline()):
                match = re.search(r"WebDriver BiDi listening on (ws://\S+)", line)
            if match is None:
                pytest.skip("this firefox does not speak WebDriver BiDi here")
            browser = Firefox(match[1])
            yield browser
            browser.socket.close()
        finally:
            running.kill()


@pytest.fixture
def address() -> Iterator[str]:
    with serving() as (_, address):
        yield address


def test_choose_run_point_slide_and_go_wrong(firefox, address, tmp_path) -> None:
    photos = [tmp_path / "a.png", tmp_path / "b.jpg"]
    for path, shift in zip(photos, (0, 9), strict=True):
        path.write_bytes(picture(shift, suffix=path.suffix))
    firefox.call(
        "browsingContext.navigate", context=firefox.page, url=address, wait="complete"
    )
    firefox.until("document.querySelectorAll('#matcher option').length")
    for k, path in enumerate(photos):
        firefox.choose(f"file{k}", path)
    firefox.until("[...document.querySelectorAll('.drop img')].every(i => !i.hidden)")
    firefox.click("run")
    firefox.until("semisure.shown && !semisure.running")
    assert abs(firefox.evaluate("semisure.shown.page.H_01[0][2]") - 9) < 0.5

    firefox.evaluate("document.getElementById('matches').scrollIntoView() ?? 0")
    x, y, expected = firefox.evaluate(
        "(() => { const {shown} = semisure, k = shown.order[5], "
        "b = document.getElementById('matches').getBoundingClientRect(), "
        "p = shown.points[0][k]; "
        "return [b.x + p[0], b.y + p[1], shown.page.columns.expected[k]]; })()"
    )
    firefox.point_at(x, y)
    tip = firefox.until(
        "!document.getElementById('tip').hidden && "
        "document.getElementById('tip').textContent"
    )
    assert f"{expected:.2f} px" in tip
    firefox.point_at(x, y, click=True)
    firefox.until("semisure.shown.picked >= 0")
    numbers = firefox.evaluate("document.getElementById('picked').textContent")
    assert "68 %" in numbers
    firefox.click("zoom-match")
    assert firefox.evaluate("semisure.shown.view.zoom") == 8

    firefox.click("slider")
    firefox.evaluate("document.getElementById('slider').focus() ?? 0")
    keys = [{"type": k, "value": "\ue012"} for k in ("keyDown", "keyUp")] * 10
    source = {"type": "key", "id": "keys", "actions": keys}
    firefox.call("input.performActions", context=firefox.page, actions=[source])
    assert firefox.evaluate("document.getElementById('line').style.left") == "45%"

    (tmp_path / "bad.png").write_bytes(b"no image")
    firefox.choose("file1", tmp_path / "bad.png")
    firefox.click("run")
    problem = firefox.until(
        "!semisure.running && document.getElementById('problem').textContent"
    )
    assert "Image 2 is no image that semisure reads" in problem
    refused = [e for e in firefox.errors if "422" not in e]
    assert refused == []  # the content policy was not broken either
