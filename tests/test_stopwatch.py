"""The clock of cues: whole, by stage, counted once, and after the device is done."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from semisure.matchers import _stopwatch
from semisure.matchers._stopwatch import extraction, seconds_on_cues, synchronise


def test_each_stage_is_counted_by_itself_and_once() -> None:
    @extraction("fine")
    def inner() -> None:
        time.sleep(0.02)

    @extraction("coarse")
    def outer() -> None:
        inner()

    before = seconds_on_cues()
    outer()
    after = seconds_on_cues()
    # What is called within belongs to the stage around it.
    assert after["coarse"] - before["coarse"] >= 0.02
    assert after["fine"] == before["fine"]
    inner()
    assert seconds_on_cues()["fine"] - after["fine"] >= 0.02


def test_a_stage_that_fails_is_over() -> None:
    @extraction("fine")
    def broken() -> None:
        raise ValueError

    with pytest.raises(ValueError):  # noqa: PT011
        broken()
    assert _stopwatch._running == []


@pytest.mark.parametrize("device", ["cuda", "mps"])
def test_the_device_is_waited_for(device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    waited = []

    def wait() -> None:
        waited.append(device)

    here = device == "cuda"
    torch = SimpleNamespace(
        cuda=SimpleNamespace(
            is_available=lambda: here, is_initialized=lambda: here, synchronize=wait
        ),
        backends=SimpleNamespace(mps=SimpleNamespace(is_available=lambda: not here)),
        mps=SimpleNamespace(synchronize=wait),
    )
    monkeypatch.setitem(sys.modules, "torch", torch)
    synchronise()
    assert waited == [device]
    extraction("fine")(lambda: None)()
    assert waited == [device] * 3  # before and after


def test_without_torch_there_is_nothing_to_wait_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delitem(sys.modules, "torch", raising=False)
    synchronise()
