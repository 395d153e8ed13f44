"""Official checkpoints: layouts that are read, and refusals that name the tensor."""

from __future__ import annotations

from pathlib import Path

import pytest

torch = pytest.importorskip("torch", reason="torch is not installed")

from semisure.errors import FileError, InputError  # noqa: E402
from semisure.matchers import load_matcher  # noqa: E402
from semisure.matchers.checkpoint import load_checkpoint  # noqa: E402


@pytest.fixture
def network() -> torch.nn.Module:
    return torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))


@pytest.fixture
def state(network) -> dict:
    return {n: torch.full_like(t, 7) for n, t in network.state_dict().items()}


@pytest.mark.parametrize("prefix", ["", "matcher.", "model."])
def test_layouts_of_training_code_are_read(
    tmp_path: Path, network, state, prefix: str
) -> None:
    named = {prefix + n: t for n, t in state.items()}
    whole = {"state_dict": named, "epoch": 3} if prefix else named
    torch.save(whole, tmp_path / "w")
    load_checkpoint(network, tmp_path / "w")
    assert all((t == 7).all() for t in network.state_dict().values())


def test_safetensors_are_read(tmp_path: Path, network, state) -> None:
    save_file = pytest.importorskip("safetensors.torch").save_file
    save_file(state, tmp_path / "w.safetensors")
    load_checkpoint(network, tmp_path / "w.safetensors")
    assert (network[0].weight == 7).all()
    (tmp_path / "w.safetensors").write_bytes(b"short")
    with pytest.raises(FileError, match="cannot be read as a checkpoint"):
        load_checkpoint(network, tmp_path / "w.safetensors")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"0.bias": None}, r'Missing key.* "0\.bias"'),
        ({"odd.one": torch.zeros(2)}, r'Unexpected key.* "odd\.one"'),
        ({"0.bias": torch.zeros(4)}, r"size mismatch for 0\.bias"),
        ({"0.bias": torch.full((3,), torch.nan)}, r"not all of 0\.bias is finite"),
    ],
)
def test_other_tensors_are_refused_by_name(
    tmp_path: Path, network, state, changed: dict, message: str
) -> None:
    state |= changed
    torch.save({n: t for n, t in state.items() if t is not None}, tmp_path / "w")
    with pytest.raises(FileError, match=message):
        load_checkpoint(network, tmp_path / "w")


def test_what_only_training_needs_is_passed_over(tmp_path, network, state) -> None:
    torch.save(state | {"flow.loc": torch.zeros(2)}, tmp_path / "w")
    load_checkpoint(network, tmp_path / "w", skipped=("flow.",))


def test_what_is_no_checkpoint_gets_one_sentence(tmp_path: Path, network) -> None:
    (tmp_path / "w").write_bytes(b"not weights")
    with pytest.raises(FileError, match="cannot be read as a checkpoint"):
        load_checkpoint(network, tmp_path / "w")
    torch.save([1, 2], tmp_path / "w")
    with pytest.raises(FileError, match="something else than named tensors"):
        load_checkpoint(network, tmp_path / "w")


@pytest.mark.parametrize("device", ["junk", "meta", "cuda:99"])
def test_a_device_that_is_not_there(device: str) -> None:
    if device.startswith("cuda") and torch.cuda.device_count() > 99:
        pytest.skip("it is there")
    with pytest.raises(InputError, match="device must be one that torch can use here"):
        load_matcher("comatch", device=device)
