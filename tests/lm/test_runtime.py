import json
import math

import pytest
import torch

from labkit.files import cache_dir
from labkit.lm import runtime


@pytest.fixture(autouse=True)
def clean(monkeypatch, tmp_path):
    """No override, no earlier measurement, and torch's thread count as it was."""
    for name in ("LABKIT_THREADS", "LABKIT_DTYPE", "LABKIT_DEVICE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path))
    runtime._free_at_start.cache_clear()
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)
    runtime._free_at_start.cache_clear()


@pytest.fixture
def measured(monkeypatch):
    """Stands in for the measurement of a CPU that is fast in bfloat16; the list grows by one each time."""
    calls = []

    def measure():
        calls.append(1)
        return {"float32": 100.0, "bfloat16": 300.0}

    monkeypatch.setattr(runtime, "measure_rates", measure)
    return calls


@pytest.mark.parametrize(
    ("cores", "busy", "free"),
    [
        (2, 0.0, 2),
        (2, 0.2, 2),
        (2, 0.6, 1),
        (2, 1.0, 1),
        (2, 2.0, 1),
        (1, 1.0, 1),
        (8, 3.1, 5),
        (8, 9.0, 1),
        (4, -0.5, 4),
    ],
)
def test_busy_cores_are_left_alone(cores, busy, free):
    assert runtime.free_cores(cores, busy) == free


def test_threads_are_the_cores_that_are_free_at_start(monkeypatch):
    # Pitfall 47: a thread on a core that another program uses spins, and slows both.
    monkeypatch.setattr(runtime, "usable_cores", lambda: 4)
    monkeypatch.setattr(runtime, "busy_cores", lambda: 2.0)
    assert runtime.choose_threads() == 2
    # Later on it is our own work that keeps the cores busy.
    monkeypatch.setattr(runtime, "busy_cores", lambda: 4.0)
    assert runtime.choose_threads() == 2


def test_measured_cores_are_within_what_the_process_may_use():
    cores = runtime.usable_cores()
    assert 1 <= runtime.choose_threads() <= cores
    assert 0 <= runtime.busy_cores(interval=0.05) <= 1024


@pytest.mark.parametrize(
    ("text", "cores"), [("max 100000\n", math.inf), ("200000 100000\n", 2), ("50000 100000", 0.5)]
)
def test_container_quota(text, cores):
    assert runtime._quota_cores(text) == cores


def test_labkit_threads_overrides_the_measurement(monkeypatch):
    monkeypatch.setattr(runtime, "busy_cores", lambda: pytest.fail("measured although it was set"))
    monkeypatch.setenv("LABKIT_THREADS", "3")
    assert runtime.choose_threads() == 3


@pytest.mark.parametrize("value", ["0", "-1", "two", "1.5", "²"])
def test_a_bad_thread_count_is_named_with_what_is_accepted(monkeypatch, value):
    monkeypatch.setenv("LABKIT_THREADS", value)
    with pytest.raises(ValueError, match=r"LABKIT_THREADS.*1 or more") as error:
        runtime.choose_threads()
    assert repr(value) in str(error.value)


def test_a_blank_override_counts_as_none(monkeypatch):
    monkeypatch.setattr(runtime, "usable_cores", lambda: 2)
    monkeypatch.setattr(runtime, "busy_cores", lambda: 0.0)
    monkeypatch.setenv("LABKIT_THREADS", " ")
    assert runtime.choose_threads() == 2


def test_configure_applies_the_thread_count(monkeypatch, measured):
    assert runtime.configure(threads=2).threads == 2
    assert torch.get_num_threads() == 2
    monkeypatch.setenv("LABKIT_THREADS", "1")
    first = runtime.configure()
    assert torch.get_num_threads() == 1 == first.threads
    assert runtime.configure() == first
    assert first.dtype == runtime.choose_dtype(first.device)
    with pytest.raises(ValueError, match="threads is '0'"):
        runtime.configure(threads=0)


def test_device_override(monkeypatch):
    monkeypatch.setenv("LABKIT_DEVICE", "cpu")
    assert runtime.choose_device() == torch.device("cpu")
    for bad in ("gpu", "cuda:99", "meta"):
        monkeypatch.setenv("LABKIT_DEVICE", bad)
        with pytest.raises(ValueError, match=r"LABKIT_DEVICE.*cpu, cuda") as error:
            runtime.choose_device()
        assert repr(bad) in str(error.value)


def test_dtype_override(monkeypatch, measured):
    monkeypatch.setenv("LABKIT_DTYPE", "bfloat16")
    assert runtime.choose_dtype() is torch.bfloat16
    monkeypatch.setenv("LABKIT_DTYPE", "float32")
    assert runtime.choose_dtype() is torch.float32
    monkeypatch.setenv("LABKIT_DTYPE", "fp16")
    with pytest.raises(ValueError, match=r"'fp16'; float32 or bfloat16"):
        runtime.choose_dtype()
    assert not measured


@pytest.mark.parametrize(
    ("bf16", "dtype"), [(149.0, torch.float32), (150.0, torch.bfloat16), (1.0, torch.float32)]
)
def test_bfloat16_needs_a_clear_gain(bf16, dtype):
    assert runtime.faster_dtype({"float32": 100.0, "bfloat16": bf16}) is dtype


def test_the_measurement_is_made_once_per_machine(measured, monkeypatch):
    assert runtime.choose_dtype() is torch.bfloat16
    assert runtime.choose_dtype() is torch.bfloat16
    assert len(measured) == 1
    monkeypatch.setattr(runtime, "cpu_name", lambda: "another machine with the same home folder")
    runtime.choose_dtype()
    assert len(measured) == 2
    assert len(json.loads((cache_dir() / "matmul_rates.json").read_text())) == 2


@pytest.mark.parametrize(
    "damage",
    [
        b"",
        b'{"half',
        b"\xff\xfe\x00",
        b"[]",
        b"null",
        b'{"KEY": 3}',
        b'{"KEY": {"float32": 1.0}}',
        b'{"KEY": {"float32": "x", "bfloat16": 1}}',
        b'{"KEY": {"float32": 100.0, "bfloat16": NaN}}',
        b'{"KEY": {"float32": 100.0, "bfloat16": -3}}',
    ],
)
def test_a_damaged_cache_is_measured_again_and_repaired(measured, damage):
    path = cache_dir() / "matmul_rates.json"
    key = f"{runtime.cpu_name()} | torch {torch.__version__}"
    path.write_bytes(damage.replace(b"KEY", key.encode()))
    assert runtime.cached_rates() == {"float32": 100.0, "bfloat16": 300.0}
    assert json.loads(path.read_text())[key] == {"float32": 100.0, "bfloat16": 300.0}
    runtime.cached_rates()
    assert len(measured) == 1


def test_a_cache_that_cannot_be_written_is_done_without(measured, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("LABKIT_CACHE", str(tmp_path / "file"))
    assert runtime.choose_dtype() is torch.bfloat16


def test_matmul_rate_counts_two_operations_per_multiply_add(monkeypatch):
    # A clock that ticks a second per reading: one product of side 100 then takes 1 s, 2e6 operations.
    ticks = iter(range(100))
    monkeypatch.setattr(runtime.time, "perf_counter", lambda: float(next(ticks)))
    assert runtime.matmul_rate(torch.float32, size=100, seconds=3) == pytest.approx(2e6 / 1e9)


def test_both_dtypes_are_really_measured():
    rates = runtime.measure_rates()
    assert set(rates) == {"float32", "bfloat16"} and all(rate > 0 for rate in rates.values())
