"""Trajectories: what they promise, and their JSON lines: a round trip, errors that say where, whole files."""

import json
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from labkit.envs.trajectory import Step, Trajectory, load_trajectories, save_trajectories

STEPS = (
    Step("o1", "ρ1", "a1", reward=0.25, ids=(5, 7), logprobs=(-0.5, -1.25)),
    Step("o2", "", "", admissible=False, failures=("format",), written="??"),
    Step("o3", "ρ3", "a3", reward=0.5, trained=False, choices=("a3", "b3")),
)
WHOLE = Trajectory("world-v0", {"n": 1, "parts": ["x", {"y": None}]}, "g", STEPS, "o4", True, False, "π", 3)


def test_cut_off_and_over_are_two_flags_and_their_returns_differ():
    # Pitfall 18, by hand: each step costs 1, the last state is worth 10, the discount is 0.5.
    # Cut off, the last state still has its value: -1 + 0.5·(-1 + 0.5·10) = 1.
    # Over, it has none: -1 + 0.5·(-1) = -1.5.
    steps = tuple(Step(f"o{t}", "", "a", reward=-1.0) for t in (1, 2))
    cut = Trajectory("w", {}, "g", steps, "o3", terminated=False, truncated=True)
    over = replace(cut, terminated=True, truncated=False)

    def discounted(trajectory, value_of_last, discount=0.5):
        total = 0.0 if trajectory.terminated else value_of_last
        for step in reversed(trajectory.steps):
            total = step.reward + discount * total
        return total

    assert discounted(cut, 10.0) == 1.0
    assert discounted(over, 10.0) == -1.5
    with pytest.raises(ValueError, match="not both terminated and truncated"):
        replace(cut, terminated=True)


def test_an_episode_that_was_given_up_is_neither_over_nor_cut_off():
    given_up = replace(WHOLE, terminated=False)
    assert not given_up.terminated and not given_up.truncated and not given_up.success


def test_success_needs_the_end_and_a_reward_for_it():
    assert WHOLE.success and WHOLE.reward == 0.75
    assert not replace(WHOLE, terminated=False, truncated=True).success
    lost = (*STEPS[:2], replace(STEPS[2], reward=-1.0))
    assert not replace(WHOLE, steps=lost).success
    assert not replace(WHOLE, steps=()).success


def test_the_history_of_step_t_never_holds_step_t():
    for t in (1, 2, 3, 4):
        assert WHOLE.history(t) == STEPS[: t - 1]
        assert WHOLE.observation(t) == f"o{t}"
        assert f"o{t}" not in [step.observation for step in WHOLE.history(t)]


@pytest.mark.parametrize("t", [-1, 0, 5])
def test_a_step_that_was_not_taken_has_neither_history_nor_observation(t):
    with pytest.raises(IndexError, match="steps 1 to 3"):
        WHOLE.history(t)
    with pytest.raises(IndexError, match="steps 1 to 3"):
        WHOLE.observation(t)


def test_a_mask_is_one_value_a_step():
    assert [s.trained for s in WHOLE.with_mask([False, True, False]).steps] == [False, True, False]
    assert WHOLE.with_mask([True] * 3).steps[:2] == STEPS[:2]
    with pytest.raises(ValueError):
        WHOLE.with_mask([True])


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"ids": (1, 2), "logprobs": (-1.0,)}, "1 logprobs for 2 ids"),
        ({"logprobs": (-1.0,)}, "1 logprobs for 0 ids"),
        ({"ids": (1,), "logprobs": (float("-inf"),)}, "finite"),
        ({"reward": float("nan")}, "finite"),
    ],
)
def test_logprobs_are_one_an_id_and_numbers_are_finite(fields, message):
    with pytest.raises(ValueError, match=message):
        Step("o", "", "a", **fields)


def test_ids_may_go_without_logprobs():
    assert Step("o", "", "a", ids=(1, 2)).logprobs == ()


def test_what_was_saved_is_loaded(tmp_path):
    others = (WHOLE, replace(WHOLE, terminated=False, truncated=True, seed=None, policy=""), _bare())
    path = save_trajectories(iter(others), tmp_path / "deep" / "some.jsonl")
    assert load_trajectories(path) == others
    assert len(path.read_text(encoding="utf-8").splitlines()) == 3
    assert load_trajectories(save_trajectories([], tmp_path / "none.jsonl")) == ()


# Line ends of all kinds, quotes, back-slashes and whatever else a model may write.
TEXT = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from('\n\r"\\\u2028\x85\x00é'))


@settings(max_examples=60, deadline=None)
@given(TEXT, TEXT, TEXT, TEXT, st.floats(allow_nan=False, allow_infinity=False), st.booleans())
def test_any_text_and_number_comes_back_as_it_was(
    tmp_path_factory, o, thought, action, written, reward, keep
):
    path = tmp_path_factory.getbasetemp() / "any.jsonl"
    step = Step(o, thought, action, reward=reward, written=written, trained=keep, choices=(action, o))
    one = Trajectory("w", {"text": o}, thought, (step,), action, False, True, written, 0)
    assert load_trajectories(save_trajectories([one, WHOLE], path)) == (one, WHOLE)


def _bare():
    return Trajectory("w", {}, "g", (), "o1", False, False)


def _change(**changes):
    return lambda row: row | changes


def _in_step(**changes):
    return lambda row: row | {"steps": [row["steps"][0], row["steps"][1] | changes, row["steps"][2]]}


@pytest.mark.parametrize(
    "change, where, what",
    [
        (_change(reward=1), "reward", "Unexpected"),
        (_in_step(tool="x"), "steps.1.tool", "Unexpected"),
        (lambda row: {k: v for k, v in row.items() if k != "goal"}, "goal", "required"),
        (_in_step(action=3), "steps.1.action", "string"),
        (_in_step(reward="1"), "steps.1.reward", "number"),
        (_in_step(trained=1), "steps.1.trained", "boolean"),
        (_in_step(ids=[1.5]), "steps.1.ids.0", "integer"),
        (_change(steps="none"), "steps", "array"),
        (_change(terminated="yes"), "terminated", "boolean"),
        (_change(terminated=True, truncated=True), "the whole line", "both terminated and truncated"),
        (_in_step(ids=[1, 2], logprobs=[-1.0]), "steps.1", "1 logprobs for 2 ids"),
        (_in_step(ids=[1], logprobs=[None]), "steps.1.logprobs.0", "number"),
    ],
)
def test_a_line_that_is_no_trajectory_is_named_with_its_field(tmp_path, change, where, what):
    path = save_trajectories([WHOLE, WHOLE], tmp_path / "bad.jsonl")
    first, second = path.read_text(encoding="utf-8").splitlines()
    path.write_text(f"{first}\n{json.dumps(change(json.loads(second)))}\n", encoding="utf-8")
    with pytest.raises(ValueError) as error:
        load_trajectories(path)
    assert str(error.value).startswith(f"line 2 of {path} is not a trajectory: {where}: ")
    assert what in str(error.value)


@pytest.mark.parametrize("broken", [b"{", b'"text"', b"[]", b'{"goal": "\xff"}'])
def test_a_broken_line_is_named(tmp_path, broken):
    path = save_trajectories([WHOLE], tmp_path / "bad.jsonl")
    path.write_bytes(path.read_bytes() + b"\n" + broken + b"\n")
    with pytest.raises(ValueError, match="line 3 of .*bad.jsonl is not a trajectory"):
        load_trajectories(path)


def test_a_file_cut_in_the_middle_of_a_line_is_no_shorter_list(tmp_path):
    path = save_trajectories([WHOLE, WHOLE], tmp_path / "cut.jsonl")
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(ValueError, match="line 2 of"):
        load_trajectories(path)


def test_no_file_is_its_own_error(tmp_path):
    with pytest.raises(FileNotFoundError):
        load_trajectories(tmp_path / "none.jsonl")


def test_the_file_is_whole_or_as_it_was(tmp_path, monkeypatch):
    path = save_trajectories([WHOLE], tmp_path / "kept.jsonl")
    before = path.read_bytes()

    def failing():
        yield _bare()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        save_trajectories(failing(), path)
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError("disk full")))
        with pytest.raises(OSError, match="disk full"):
            save_trajectories([_bare()], path)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["kept.jsonl"]
