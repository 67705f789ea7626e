"""The widgets without a browser: what their callbacks do, with a model too small to be any good."""

import asyncio
import random
import re
import threading
import time
from dataclasses import replace

import ipywidgets as widgets
import pytest
import torch

from labkit.envs.points24 import compact
from labkit.envs.points24.data import demonstration, multiset, split_hands, writable
from labkit.envs.points24.grading import Outcome
from labkit.envs.points24.play import Attempt, Codec
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN, Rule, has_face
from labkit.plotting import new_figure
from labkit.workshop import points24_checkpoints, points24_live, points24_play
from labkit.workshop.controls import Refresher, debounced, figure_html, status_html
from labkit.workshop.points24_answers import annotate, answer_html, hand_html, mistakes_text, parse_hand
from labkit.workshop.points24_live import LiveConfig, LiveRun, stage_of
from labkit.workshop.points24_play import example_hands, grade_formula
from labkit.workshop.widgets import (
    TrainingPanel,
    checkpoint_slider,
    play_hand,
    snapshots_of,
    static_checkpoints,
    static_play,
)
from tests import tiny

WORDS = tuple(compact.VOCABULARY)
HAND = (6, 11, 12, 13)
SIZE = {"steps": 4, "evaluate_every": 2, "max_hands": 3}


@pytest.fixture(scope="module")
def model():
    return tiny.llama(words=WORDS)


@pytest.fixture(scope="module")
def codec():
    return Codec(tiny.tokenizer(WORDS))


@pytest.fixture(autouse=True)
def smoke(monkeypatch):
    monkeypatch.setenv("LABKIT_PROFILE", "smoke")


@pytest.fixture
def forward_calls(monkeypatch):
    """Counts what any widget asks any model."""
    calls = []
    for module, name in (
        (points24_play, "attempts"),
        (points24_checkpoints, "sample"),
        (points24_live, "attempts"),
    ):
        real = getattr(module, name)
        monkeypatch.setattr(module, name, lambda *a, real=real, **k: (calls.append(1), real(*a, **k))[1])
    return calls


def descendants(widget: widgets.Widget) -> list[widgets.Widget]:
    children = getattr(widget, "children", ())
    return [widget] + [w for child in children for w in descendants(child)]


def status(widget) -> str:
    return re.sub("<.*?>", "", widget._status.value)


# Pieces


def test_a_figure_carries_its_alt_text_and_a_width():
    figure, _ = new_figure()
    shown = figure_html(figure, 'A line that rises from "0" to <1> over ten steps.', width=300)
    assert 'alt="A line that rises from &quot;0&quot; to &lt;1&gt; over ten steps."' in shown
    assert 'width="300"' in shown and "data:image/png;base64," in shown
    with pytest.raises(ValueError, match="alt text says what the figure shows"):
        figure_html(figure, "Accuracy")


def test_status_is_announced_and_escaped():
    assert 'aria-live="polite"' in status_html("x") and "<b>" not in status_html("<b>")


def test_debounced_makes_one_call_with_the_last_arguments_in_the_kernels_thread():
    calls = []

    async def drag():
        late = debounced(0.02)(lambda value: calls.append((value, threading.current_thread())))
        for value in range(10):
            late(value)
        assert calls == []
        await asyncio.sleep(0.2)

    asyncio.run(drag())
    assert calls == [(9, threading.main_thread())]


def test_debounced_works_without_a_loop_and_with_no_wait():
    done, calls = threading.Event(), []

    def note(value):
        calls.append(value)
        done.set()

    late = debounced(0.02)(note)
    late(1)
    late(2)
    assert done.wait(10)
    time.sleep(0.1)
    assert calls == [2]
    debounced(0)(note)(3)
    assert calls == [2, 3]


def test_refresher_runs_in_its_home_thread_and_bundles_requests():
    ran = []

    async def kernel():
        refresher = Refresher(lambda: ran.append(threading.current_thread()))

        def train():
            for _ in range(50):
                refresher.ask()

        thread = threading.Thread(target=train)
        thread.start()
        thread.join()  # the loop is busy meanwhile, like a kernel that runs a cell
        assert ran == []
        await asyncio.sleep(0.05)

    asyncio.run(kernel())
    assert ran == [threading.main_thread()]


# Answers, line by line


def tokens_of(text: str) -> list[str]:
    return [*text.split(), compact.EOS]


@pytest.mark.parametrize(
    ("text", "notes"),
    [
        ("10 4 10 10 ; 10 - 4 = 6 : 10 10 6 ; 10 + 10 = 20 : 6 20 ; 6 + 20 = 26", ""),
        (
            "13 4 10 10 ; 10 - 4 = 7 : 13 10 7 ; 13 + 10 = 23 : 7 23 ; 7 + 23 = 30",
            "misread: Q counts 10; false: 10 − 4 is 6",
        ),
        (
            "10 4 10 10 ; 9 + 4 = 13 : 10 10 13 ; 10 + 10 = 20 : 13 20 ; 13 + 20 = 33",
            "no 9 is left; left is 10 10 10 13",
        ),
        ("10 4 10 10 ; 10 / 4 = 2 : 10 10 2", "false: 10 ÷ 4 is 5/2; four cards take three"),
        ("10 4 10", "not read; four cards take three"),
        ("10 4 10 10 ; 10 + = 6", "not a step; four cards take three"),
    ],
)
def test_mistakes_are_named(text, notes):
    attempt = attempt_at(tokens_of(text), (12, 4, 10, 11), FACES_AS_TEN)
    assert mistakes_text(attempt, (12, 4, 10, 11), FACES_AS_TEN) == notes
    shown = answer_html(attempt, (12, 4, 10, 11), FACES_AS_TEN)
    assert attempt.verdict.outcome.value in shown
    # In words, not by colour alone.
    assert all(f"({note})" in shown for note in notes.split("; ") if note)


def attempt_at(tokens: list[str], hand: tuple[int, ...], rule: Rule) -> Attempt:
    return Attempt(tuple(tokens), compact.grade(tokens, hand, rule))


def test_there_is_no_note_exactly_where_the_verifier_finds_nothing_but_the_value_wrong():
    rng = random.Random(0)
    seen = set()
    for _ in range(2000):
        rule = rng.choice((FACES_AS_TEN, FACES_AS_RANK))
        hand = tuple(rng.sample(rng.choice(writable(split_hands().test[:60], rule)), 4))
        tokens = compact.response_tokens(rule.values(hand), compact.random_reduction(rule.values(hand), rng))
        if rng.random() < 0.2:
            solved = demonstration(hand, rule, rng).tokens[compact.PROMPT_LENGTH - 5 :]
            hand, tokens = tuple(compact.CARD_TOKENS.index(t) + 1 for t in solved[:4]), list(solved[5:])
        for _ in range(rng.choice((0, 0, 1, 1, 2, 5))):
            at = rng.randrange(len(tokens))
            tokens[at : at + rng.choice((0, 1, 1, 1, 2))] = rng.choices(WORDS, k=rng.choice((0, 1, 1, 1, 2)))
            tokens = tokens or [compact.EOS]
        outcome = compact.grade(tokens, hand, rule).outcome
        notes = [p.note for line in annotate(tokens, hand, rule) for p in line.pieces if p.note]
        assert (not notes) == (outcome in (Outcome.CORRECT, Outcome.WRONG_VALUE)), (tokens, outcome, notes)
        seen.add(outcome)
    assert seen == set(Outcome)


def test_hands_are_read_and_refused_in_words():
    assert parse_hand("q, 4 10  j") == (12, 4, 10, 11)
    for text, problem in (("Q 4 11 J", "'11' is no card"), ("Q 4", "this has 2"), ("", "this has 0")):
        with pytest.raises(ValueError, match=problem):
            parse_hand(text)
    assert "counts 12" in hand_html(HAND, FACES_AS_RANK)


# Play a hand


@pytest.mark.parametrize(
    ("formula", "rule", "outcome"),
    [
        ("10+10-6+10", FACES_AS_TEN, Outcome.CORRECT),
        ("10+10-6+10=24", FACES_AS_TEN, Outcome.CORRECT),
        ("10+10+6+10", FACES_AS_TEN, Outcome.WRONG_VALUE),
        ("6*(13-12)*11", FACES_AS_TEN, Outcome.MISREAD_CARDS),
        ("10+10-6+10", FACES_AS_RANK, Outcome.MISREAD_CARDS),
        ("6*(13-12)*11", FACES_AS_RANK, Outcome.WRONG_VALUE),
        ("6*4", FACES_AS_TEN, Outcome.WRONG_NUMBERS),
        ("10/(10-10)+6", FACES_AS_TEN, Outcome.ILLEGAL),
        ("__import__('os')", FACES_AS_TEN, Outcome.ILLEGAL),
        ("10+10-6+", FACES_AS_TEN, Outcome.ILLEGAL),
        ("((((", FACES_AS_TEN, Outcome.ILLEGAL),
    ],
)
def test_formulas_get_the_verifiers_outcome(formula, rule, outcome, model, codec):
    assert grade_formula(formula, HAND, rule).outcome is outcome
    play = play_hand(model, codec, hand=HAND, rule=rule)
    play.formula.value = formula  # what Enter does
    assert play.verdict.outcome is outcome
    assert outcome.value in status(play) and outcome.value in play._graded.value


def test_a_correct_fraction_is_correct(model, codec):
    assert grade_formula("8/(3-8/3)", (3, 3, 8, 8), FACES_AS_TEN).outcome is Outcome.CORRECT


def test_what_is_typed_never_becomes_markup(model, codec):
    play = play_hand(model, codec, hand=HAND)
    play.formula.value = "<img src=x onerror=alert(1)>"
    play.cards.value = "<b>"
    shown = " ".join(w.value for w in descendants(play) if isinstance(w, widgets.HTML))
    assert "<img" not in shown and "<b>&" not in shown and "&lt;B&gt;" in shown
    assert play.hand == HAND


def test_check_without_a_formula_says_what_to_type(model, codec):
    play = play_hand(model, codec)
    play.check_button.click()
    assert "Type a formula first" in status(play) and play.verdict is None


def test_cards_are_typed_or_drawn_by_seed(model, codec):
    play = play_hand(model, codec, seed=3)
    play.cards.value = "k q 2 3"
    assert play.hand == (13, 12, 2, 3) and play.cards.value == "K Q 2 3"
    hands = []
    for _ in range(5):
        play.new_hand.click()
        hands.append(play.hand)
    again = play_hand(model, codec, seed=3)
    for hand in hands:
        again.new_hand.click()
        assert again.hand == hand
        assert has_face(hand) and tuple(sorted(hand)) in split_hands().test
    assert len(set(hands)) > 1


def test_example_hands_can_be_solved_under_both_rules():
    for hand in example_hands():
        for rule in (FACES_AS_TEN, FACES_AS_RANK):
            assert compact.expressible_solutions(multiset(hand, rule))


def test_the_model_is_asked_again_under_the_other_rule_only_if_it_had_been_asked(
    model, codec, monkeypatch, forward_calls
):
    monkeypatch.setattr(points24_play, "WAIT_SECONDS", 0)
    play = play_hand(model, codec, hand=HAND)
    play.rule.value = FACES_AS_RANK
    assert forward_calls == [] and play.attempt is None and "11, 12, 13" in status(play)
    play.ask_button.click()
    under_rank = play.attempt
    assert len(forward_calls) == 1 and under_rank.verdict.outcome.value in play._answer.value
    play.rule.value = FACES_AS_TEN
    assert len(forward_calls) == 2 and play.attempt is not None
    play.new_hand.click()
    assert play.attempt is None and play._answer.value == ""


def test_a_solution_is_shown_or_said_to_be_none(model, codec):
    play = play_hand(model, codec, hand=HAND)
    play.solution_button.click()
    assert "= 24" in play._solution.value and "one of" in play._solution.value
    play.cards.value = "A A A A"
    play.solution_button.click()
    assert "no solution" in play._solution.value
    play.cards.value = "3 3 8 8"
    play.solution_button.click()
    assert "the only solution" in play._solution.value and "fraction" in play._solution.value


def test_one_of_several_models_is_chosen(model, codec):
    play = play_hand({"base": model, "other": tiny.llama(3, words=WORDS)}, codec)
    assert play.opponent in play.children
    play.opponent.value = "other"
    assert "other" in status(play)
    assert play_hand(model, codec).opponent not in play_hand(model, codec).children
    with pytest.raises(ValueError, match="not one of"):
        play_hand(model, codec, rule=Rule(1, 2, 3))


# The training panel


def wait_until(condition, seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture(scope="module")
def uninterrupted(model, codec):
    """Both methods run without a break."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_PROFILE", "smoke")
        panel = TrainingPanel(model, codec, **SIZE)
        panel.run_blocking()
    return panel


@pytest.mark.parametrize("method", ["SFT", "RL"])
def test_stopped_and_resumed_gives_the_same_numbers(method, model, codec, uninterrupted):
    panel = TrainingPanel(model, codec, **SIZE)
    panel.method.value = method
    panel.start_button.click()
    panel.stop_button.click()
    assert panel.wait(60) and not panel.training
    assert not panel.runs[method].finished and "stopped" in status(panel)
    panel.run_blocking(1, [method])
    panel.resume_button.click()
    assert panel.wait(60) and panel.runs[method].finished and "done" in status(panel)
    ours, theirs = panel.runs[method], uninterrupted.runs[method]
    assert ours.rows == theirs.rows and ours.state.history == theirs.state.history
    assert [s.step for s in ours.snapshots] == [0, 2, 4]
    for mine, other in zip(ours.snapshots, theirs.snapshots, strict=True):
        for name, weight in mine.model.state_dict().items():
            assert torch.equal(weight, other.model.state_dict()[name])


def test_stop_takes_effect_after_the_step_in_hand(model, codec):
    run, stop = LiveRun("SFT", model, codec, LiveConfig(**SIZE)), threading.Event()
    run.advance(None, stop, lambda: run.step == 3 and stop.set())
    assert run.step == 3 and [row["step"] for row in run.rows] == [0, 2]
    run.advance(None, stop)
    assert run.step == 3
    stop.clear()
    run.advance(None, stop)
    assert run.finished and run.seconds_left() == 0


def test_training_leaves_the_model_it_was_given(model, codec, uninterrupted):
    base = uninterrupted.runs["SFT"].snapshots[0].model
    for name, weight in model.state_dict().items():
        assert torch.equal(weight, base.state_dict()[name])
    last = uninterrupted.runs["SFT"].snapshots[-1].model.state_dict()
    assert any(not torch.equal(weight, last[name]) for name, weight in model.state_dict().items())


def test_buttons_out_of_turn_explain_themselves(model, codec):
    panel = TrainingPanel(model, codec, **SIZE)
    for button, says in ((panel.stop_button, "Nothing is training"), (panel.resume_button, "press Start")):
        button.click()
        assert says in status(panel)
    panel.start_button.click()
    panel.method.value = "RL"
    panel.start_button.click()
    assert panel.wait(60)
    assert "RL" not in panel.runs
    panel.method.value = "SFT"
    panel.start_button.click()
    assert "press Reset" in status(panel)
    panel.resume_button.click()
    assert "cannot go on" in status(panel)
    before = panel._figure.value
    panel.reset_button.click()
    assert panel.runs == {} and "back at the base" in status(panel) and panel._figure.value != before


def test_reset_while_training_stops_first(model, codec):
    panel = TrainingPanel(model, codec, steps=200, evaluate_every=100, max_hands=2)
    panel.start()
    wait_until(lambda: panel.runs["SFT"].step >= 1)
    panel.reset_button.click()
    assert not panel.training and panel.runs == {}


def test_the_picture_moves_while_it_trains_and_the_kernel_stays_free(model, codec):
    seen = []

    async def kernel():
        panel = TrainingPanel(model, codec, **SIZE)
        panel._figure.observe(lambda change: seen.append(threading.current_thread()), "value")
        panel.start()
        for _ in range(3000):
            await asyncio.sleep(0.01)
            if panel.runs["SFT"].finished and not panel.training and "done" in status(panel):
                return panel
        raise AssertionError(status(panel))

    panel = asyncio.run(kernel())
    assert seen and set(seen) == {threading.main_thread()}
    assert "step 4 of 4" in panel._progress.value


def test_figure_has_both_methods_both_rules_and_words(uninterrupted):
    figure = uninterrupted.figure()
    for axes in figure.axes:
        lines = axes.get_lines()
        assert len(lines) == 4 and len({(line.get_color(), line.get_linestyle()) for line in lines}) == 4
        assert all(list(line.get_xdata()) == [0, 2, 4] for line in lines)
    assert "SFT, 4 updates" in uninterrupted.alt() and "RL, 4 updates" in uninterrupted.alt()
    assert uninterrupted.alt() in uninterrupted.static().data.replace("&#x27;", "'")


def test_the_x_axis_is_compute_on_demand(uninterrupted):
    steps = uninterrupted._figure.value
    uninterrupted.axis.value = "compute"
    computed = uninterrupted._figure.value
    assert computed != steps
    assert uninterrupted.figure().axes[0].get_xlabel() == "training compute (FLOPs)"
    uninterrupted.axis.value = "step"
    assert uninterrupted._figure.value == steps
    compute = [row["compute"] for row in uninterrupted.runs["RL"].rows]
    assert compute[0] == 0 and compute == sorted(compute) and compute[-1] > 0


def test_a_failure_is_said_and_a_new_run_begins_anew(model, codec, monkeypatch):
    panel = TrainingPanel(model, codec, **SIZE)
    monkeypatch.setattr(points24_live, "evaluation_sets", lambda *_: 1 / 0)
    panel.start()
    assert panel.wait(60)
    assert "ZeroDivisionError" in status(panel)
    panel.resume()
    assert "Reset" in status(panel)
    with pytest.raises(RuntimeError, match="training SFT failed: ZeroDivisionError"):
        panel.run_blocking(methods=["SFT"])
    monkeypatch.undo()
    monkeypatch.setenv("LABKIT_PROFILE", "smoke")
    panel.run_blocking(methods=["SFT"])
    assert panel.runs["SFT"].finished


def test_an_interrupt_stops_after_the_step_in_hand(model, codec, monkeypatch):
    panel = TrainingPanel(model, codec, steps=200, evaluate_every=100, max_hands=2)

    def interrupt():
        if panel.runs["SFT"].step:
            raise KeyboardInterrupt

    monkeypatch.setattr(panel._refresher, "run_if_asked", interrupt)
    with pytest.raises(KeyboardInterrupt):
        panel.run_blocking()
    assert not panel.training and 0 < panel.runs["SFT"].step < 200


def test_panel_refuses_sizes_and_methods_it_cannot_use(model, codec):
    with pytest.raises(ValueError, match="steps is 0; at least 1"):
        TrainingPanel(model, codec, steps=0)
    with pytest.raises(ValueError, match="'PPO' is not one of SFT, RL"):
        TrainingPanel(model, codec).run_blocking(methods=["PPO"])


# The slider over checkpoints


def test_dragging_asks_no_model_and_changes_what_is_shown(uninterrupted, codec, forward_calls):
    slider = checkpoint_slider(uninterrupted.snapshots, codec, HAND)
    assert len(forward_calls) == 6, "one batch a checkpoint"
    forward_calls.clear()
    shown = set()
    for series in ("SFT", "RL"):
        slider.series.value = series
        for _, step in slider.slider.options:
            slider.slider.value = step
            shown.add((slider._shown.value, slider._status.value))
            assert ("base" if step == 0 else f"step {step}") in status(slider)
    assert forward_calls == [] and len(shown) == 6


def test_the_place_stays_when_the_method_changes(uninterrupted, codec):
    def snapshots():
        sft, rl = (uninterrupted.runs[method].snapshots for method in ("SFT", "RL"))
        return [*sft, *(replace(s, step=10 * s.step) for s in rl[:2])]

    slider = checkpoint_slider(snapshots, codec, [HAND, (4, 8, 11, 12)])
    slider.slider.value = 2
    slider.series.value = "RL"
    assert slider.slider.value == 20 and status(slider).startswith("RL, step 20")
    assert slider.slider in slider.children
    slider.hand.value = 1
    assert "hand 4 8 J Q" in status(slider)
    slider.series.value = "SFT"
    slider.slider.value = 4
    slider.series.value = "RL"
    assert slider.slider.value == 20, "the last there is"


def test_workshop_sizes_cost_both_methods_about_the_same_compute(monkeypatch):
    assert LiveConfig.of_profile("SFT").steps < 10, "the smoke profile"
    monkeypatch.setenv("LABKIT_PROFILE", "workshop")
    sizes = {method: LiveConfig.of_profile(method) for method in ("SFT", "RL")}
    assert all(8 <= size.steps / size.evaluate_every <= 12 for size in sizes.values())
    sft, rl = (stage_of(method, size)[1] for method, size in sizes.items())
    # Per sequence: 6 times parameters and tokens to train on it, 2 times to sample it.
    sft_compute = 6 * sft.steps * sft.batch_size
    rl_compute = 8 * rl.steps * rl.algorithm.prompts_per_step * rl.algorithm.group_size
    assert 0.7 < sft_compute / rl_compute < 1.4


def test_reading_again_asks_only_the_new_checkpoints(model, codec, forward_calls):
    panel = TrainingPanel(model, codec, **SIZE)
    slider = checkpoint_slider(panel.snapshots, codec, HAND)
    assert slider.series.options == ("base",) and len(slider.slider.options) == 1
    panel.run_blocking(2, ["SFT"])
    forward_calls.clear()
    slider.reload_button.click()
    assert slider.series.options == ("SFT",) and [step for _, step in slider.slider.options] == [0, 2]
    assert len(forward_calls) == 2
    slider.reload_button.click()
    assert len(forward_calls) == 2


def test_checkpoints_may_be_state_dicts(model, codec):
    states = {step: tiny.llama(step, words=WORDS).state_dict() for step in (10, 0, 5)}
    slider = checkpoint_slider(snapshots_of(model, states), codec, HAND)
    assert [label for label, _ in slider.slider.options] == ["base", "step 5", "step 10"]
    with pytest.raises(ValueError, match="no checkpoints"):
        checkpoint_slider([], codec)


# All of them


@pytest.fixture
def all_widgets(model, codec, uninterrupted):
    return [
        play_hand({"base": model, "copy": model}, codec),
        uninterrupted,
        checkpoint_slider(uninterrupted.snapshots, codec),
    ]


def test_controls_have_names_and_can_be_used_from_the_keyboard(all_widgets):
    for widget in all_widgets:
        controls = [w for w in descendants(widget) if isinstance(w, widgets.ValueWidget | widgets.Button)]
        controls = [w for w in controls if not isinstance(w, widgets.HTML)]
        assert len(controls) >= 4
        for control in controls:
            assert control.description and control.tabbable is not False
            # JupyterLab takes the arrow keys and letters from these in command mode.
            assert not isinstance(control, widgets.Dropdown | widgets.Select | widgets.RadioButtons)


def test_every_widget_announces_its_status_and_has_a_still(all_widgets):
    for widget in all_widgets:
        assert 'aria-live="polite"' in widget._status.value
        bundle = widget._repr_mimebundle_()
        assert "application/vnd.jupyter.widget-view+json" in bundle
        assert bundle["text/html"] == widget.still() and len(widget.still()) > 200


def test_stills_tell_the_same_without_controls(model, codec, uninterrupted):
    played = static_play(model, codec, HAND).data
    assert "count 10" in played and "count 11, 12, 13" in played and "= 24" in played
    table = static_checkpoints(uninterrupted.snapshots, codec, HAND).data
    assert table.count("<tr>") == 1 + 6 and "RL, step 4" in table
    assert 'alt="' in uninterrupted.static().data
