import json
import subprocess
import sys
import types

import pytest

from labkit.__main__ import CHECKS_ARGUMENTS, COMMANDS, main
from labkit.bench import Benchmark, benchmark, benchmarks, run_benchmarks
from labkit.files import repo_root


def fake_module(monkeypatch, name: str, **functions) -> None:
    """Stand in for a module that a command imports when it runs."""
    module = types.ModuleType(name)
    vars(module).update(functions)
    monkeypatch.setitem(sys.modules, name, module)


def rejected(capsys, *argv: str) -> str:
    """The error text of a command line that must end with exit code 2."""
    try:
        code = main(argv)
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    return capsys.readouterr().err


def test_without_a_command_the_commands_are_listed(capsys):
    assert main([]) == 0
    out = capsys.readouterr().out
    for name in COMMANDS:
        assert f"\n    {name} " in out


def test_the_command_line_starts_without_loading_torch():
    code = "import sys, labkit.__main__ as m; m.main([]); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_python_m_labkit_ends_with_the_commands_exit_code():
    done = subprocess.run(
        [sys.executable, "-m", "labkit", "run", "x", "--seeds", "0"], capture_output=True, text=True
    )
    assert done.returncode == 2 and "Traceback" not in done.stderr


def test_run_passes_on_what_was_asked(monkeypatch):
    calls = []
    fake_module(monkeypatch, "labkit.study", run_study=lambda *args: calls.append(args))
    monkeypatch.delenv("LABKIT_PROFILE", raising=False)
    assert main(["run", "points24"]) == 0
    assert main("run points24 --profile full --seeds 5 --workers 2 --arms sft,rl".split()) == 0
    monkeypatch.setenv("LABKIT_PROFILE", "smoke")
    assert main(["run", "points24"]) == 0
    assert calls == [
        ("points24", "workshop", None, 1, None),
        ("points24", "full", 5, 2, ["sft", "rl"]),
        ("points24", "smoke", None, 1, None),
    ]


@pytest.mark.parametrize(
    ("options", "given", "accepted"),
    [
        (["--seeds", "0"], "'0'", "1 or more"),
        (["--seeds", "two"], "'two'", "1 or more"),
        (["--seeds", "-1"], "'-1'", "1 or more"),
        (["--workers", "1.5"], "'1.5'", "1 or more"),
        (["--profile", "quick"], "'quick'", "smoke (seconds), workshop (minutes) and full (hours)"),
        (["--arms", "sft,"], "'sft,'", "separated by commas"),
    ],
)
def test_bad_values_are_named_with_what_is_accepted(capsys, options, given, accepted):
    error = rejected(capsys, "run", "points24", *options)
    assert given in error and accepted in error and options[0] in error


def test_a_bad_profile_in_the_environment_is_named_too(capsys, monkeypatch):
    monkeypatch.setenv("LABKIT_PROFILE", "quick")
    assert "'quick'" in rejected(capsys, "run", "points24")


@pytest.mark.parametrize("error", [ValueError, FileNotFoundError])
def test_what_a_study_says_of_a_request_is_an_answer_without_traceback(capsys, monkeypatch, error):
    def unknown(*args):
        raise error("no study 'x'; there are: points24")

    fake_module(monkeypatch, "labkit.study", run_study=unknown)
    monkeypatch.setattr("labkit.__main__.CHECKS_ARGUMENTS", (__name__,))
    assert "no study 'x'; there are: points24" in rejected(capsys, "run", "x")


def test_an_error_from_inside_a_study_keeps_its_traceback(monkeypatch):
    def broken(*args):
        raise ValueError("shapes do not match")

    fake_module(monkeypatch, "labkit.study", run_study=broken)
    with pytest.raises(ValueError, match="shapes do not match"):
        main(["run", "x"])


def test_the_modules_that_check_arguments_are_named_rightly():
    here = {path.with_suffix("").name for path in (repo_root() / "labkit").glob("*")}
    for name in CHECKS_ARGUMENTS:
        assert name.split(".")[1] in here, name


CLAIM = {
    "id": "points24-1",
    "study": "points24",
    "source": "arXiv 2501.17161",
    "statement": "RL raises accuracy under an unseen rule.",
    "verdict": "reproduced",
    "effect": 0.0512345,
    "low": 0.01,
    "high": 0.09,
    "seeds": 5,
    "paper": None,
}


def test_claims_as_a_table_and_as_json(capsys, monkeypatch):
    fake_module(monkeypatch, "labkit.claims", load_ledger=lambda: [CLAIM])
    assert main(["claims", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == [CLAIM]
    assert main(["claims"]) == 0
    out = capsys.readouterr().out
    for text in ("points24-1", "reproduced", "0.0512 ", "0.01 to 0.09", "RL raises accuracy", "2501.17161"):
        assert text in out


def test_claims_before_there_are_any(capsys, monkeypatch):
    def absent():
        raise FileNotFoundError("figures/claims.json")

    fake_module(monkeypatch, "labkit.claims", load_ledger=absent)
    assert "labkit figures" in rejected(capsys, "claims")


def test_figures_prints_what_it_drew(capsys, monkeypatch):
    fake_module(monkeypatch, "labkit.studies", draw_figures=lambda study: [f"figures/{study}/a.svg"])
    assert main(["figures", "points24"]) == 0
    assert main(["figures"]) == 0
    assert capsys.readouterr().out.split() == ["figures/points24/a.svg", "figures/None/a.svg"]


def test_bench_measures_and_prints_both_ways(capsys):
    assert main(["bench", "--json", "--only", "points24_solver"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert list(row) == ["id", "ours", "theirs", "ratio", "unit"]
    assert row["id"] == "points24_solver" and row["unit"] == "hands/s"
    assert row["ratio"] == pytest.approx(row["ours"] / row["theirs"])
    assert main(["bench", "--only", "points24_solver"]) == 0
    assert "points24_solver" in capsys.readouterr().out
    assert "there are:" in rejected(capsys, "bench", "--only", "nothing")


def test_a_ratio_above_one_means_ours_is_better():
    assert Benchmark("rate", "x/s", True, lambda: (30.0, 10.0)).row()["ratio"] == 3
    assert Benchmark("time", "s", False, lambda: (10.0, 30.0)).row()["ratio"] == 3


def test_a_benchmark_id_is_used_once():
    assert "points24_solver" in benchmarks()
    with pytest.raises(ValueError, match="taken"):
        benchmark("points24_solver", "x")(lambda: (1.0, 1.0))
    with pytest.raises(ValueError, match="'nothing'"):
        run_benchmarks(["nothing"])


def test_the_benchmarks_brute_force_agrees_with_the_solver():
    from labkit.bench.points24 import brute_force
    from labkit.envs.points24.solver import all_hands, is_solvable

    for hand in [(3, 3, 8, 8), (1, 1, 1, 1), (1, 5, 5, 5), *all_hands()[::181]]:
        assert brute_force(hand) == is_solvable(hand), hand
