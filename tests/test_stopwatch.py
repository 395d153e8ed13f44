"""The clock of cues: by stage, and after the device is done."""

from __future__ import annotations

import sys
import time
from types import SimpleNamespace

import pytest

from semisure.matchers.stopwatch import extraction, seconds_on_cues


def test_each_stage_is_counted_by_itself_even_if_it_fails() -> None:
    @extraction("fine")
    def failing() -> None:
        time.sleep(0.02)
        raise ValueError("on purpose")

    before = seconds_on_cues()
    with pytest.raises(ValueError, match="on purpose"):
        failing()
    after = seconds_on_cues()
    assert after["fine"] - before["fine"] >= 0.02
    assert after["coarse"] == before["coarse"]


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
    extraction("fine")(lambda: None)()
    assert waited == [device] * 2  # before and after
