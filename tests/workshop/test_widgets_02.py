"""Notebook 02's widgets without a browser: the numbers they show, and that what is shown follows a drag."""

import asyncio
import itertools
import math
import re

import ipywidgets as widgets
import pytest
import torch

from labkit.plotting import new_figure
from labkit.workshop import moving
from labkit.workshop.moving import MovingFigure, number
from labkit.workshop.ppo_clip import case_text, clip_curves
from labkit.workshop.ppo_group import VARIANTS, dropped, length_bias, token_pulls
from labkit.workshop.ppo_kl import round_limit
from labkit.workshop.ppo_kl_report import gradient_name, kl_report
from labkit.workshop.widgets import (
    clip_explorer,
    group_marker,
    kl_explorer,
    static_clip,
    static_group_marker,
    static_kl,
)

MAKERS = [(clip_explorer, static_clip), (kl_explorer, static_kl), (group_marker, static_group_marker)]


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(moving, "WAIT_SECONDS", 0)


def doubles(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def descendants(widget: widgets.Widget) -> list[widgets.Widget]:
    return [widget] + [w for child in getattr(widget, "children", ()) for w in descendants(child)]


def status(widget) -> str:
    return re.sub("<.*?>", "", widget._status.value)


def cells(widget) -> list[list[str]]:
    rows = re.findall("<tr>(.*?)</tr>", widget._table.value)
    return [re.findall("<t[hd].*?>(.*?)</t[hd]>", row) for row in rows]


# The clip


@pytest.mark.parametrize(
    ("ratio", "advantage", "dual_clip", "gradient", "cispo"),
    [
        # ε low .2, ε high .28. A > 0 is stopped above, A < 0 below; the dual clip stops A < 0 far above.
        (0.0, 1.0, None, 0.0, 0.0),
        (0.5, 1.0, None, 0.5, 0.5),
        (1.27, 1.0, None, 1.27, 1.27),
        (1.29, 1.0, None, 0.0, 1.28),
        (3.2, 1.0, 3.0, 0.0, 1.28),
        (0.79, -1.0, None, 0.0, -0.79),
        (0.81, -1.0, None, -0.81, -0.81),
        (2.9, -1.0, 3.0, -2.9, -1.28),
        (3.2, -1.0, None, -3.2, -1.28),
        (3.2, -1.0, 3.0, 0.0, -1.28),
    ],
)
def test_gradients_of_the_objectives_in_log_r(ratio, advantage, dual_clip, gradient, cispo):
    curves = clip_curves(doubles(ratio), advantage, 0.2, 0.28, dual_clip)
    assert curves.gradient.item() == pytest.approx(gradient)
    assert curves.cispo_gradient.item() == pytest.approx(cispo)


def test_objective_is_the_smaller_one_and_bounded_by_the_dual_clip():
    ratio = doubles(0.5, 1.0, 2.0, 3.4)
    assert clip_curves(ratio, 1.0, 0.2, 0.28).objective.tolist() == pytest.approx([0.5, 1, 1.28, 1.28])
    assert clip_curves(ratio, -1.0, 0.2, 0.28).objective.tolist() == pytest.approx([-0.8, -1, -2, -3.4])
    assert clip_curves(ratio, -1.0, 0.2, 0.28, 3.0).objective.tolist() == pytest.approx([-0.8, -1, -2, -3])


@pytest.mark.parametrize("advantage", [1.0, -1.0])
@pytest.mark.parametrize("dual_clip", [None, 3.0])
def test_the_words_say_no_gradient_exactly_where_there_is_none(advantage, dual_clip):
    said = set()
    for i in range(1, 351):
        ratio = i / 100
        gradient = clip_curves(doubles(ratio), advantage, 0.2, 0.28, dual_clip).gradient.item()
        text = case_text(ratio, advantage, 0.2, 0.28, dual_clip)
        assert ("no gradient" in text) == (gradient == 0), (ratio, text)
        assert gradient == 0 or f"gradient {number(gradient, sign=True)}" in text
        said.add(re.split("[:,]", text)[0])
    assert len(said) == (4 if advantage < 0 and dual_clip else 3)


def test_moving_the_clip_moves_line_point_and_words():
    explorer = clip_explorer(ratio=1.25, clip_low=0.2, clip_high=0.2)
    assert status(explorer).startswith("A &gt; 0 and r above 1+ε: no gradient")
    explorer.clip_high.value = 0.28
    assert status(explorer).startswith("A &gt; 0 and r within the clip: gradient +1.25")
    assert explorer._lines["objective"].get_ydata().max() == pytest.approx(1.28)
    assert explorer._points[1].get_ydata()[0] == pytest.approx(1.25)
    explorer.advantage.value = -1.0
    assert explorer._main[0].get_ylim()[0] < -3
    explorer.ratio.value = 3.3
    assert "full gradient −3.30" in status(explorer)
    explorer.dual_clip.value = 3.0
    assert "above the dual clip 3: no gradient" in status(explorer)
    assert "until the dual clip at 3 makes it flat again" in explorer._picture.value


def test_what_the_browser_sends_is_rounded_to_the_sliders_step():
    explorer = clip_explorer(clip_high=0.28)
    explorer.ratio.value = 1.2800000000000002
    assert "within the clip" in status(explorer)


# KL

LOGITS, REFERENCE = doubles(1.0, -0.5, 0.3), doubles(-0.2, 0.4, 0.0)


def share(logits: list[float]) -> list[float]:
    total = sum(math.exp(x) for x in logits)
    return [math.exp(x) / total for x in logits]


def divergence(p: list[float], q: list[float]) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def slopes(function, at: list[float], h: float = 1e-6) -> list[float]:
    """Central differences in each logit."""
    moved = [
        [x + d * (i == j) for j, x in enumerate(at)] for i, d in itertools.product(range(len(at)), (h, -h))
    ]
    values = [function(share(logits)) for logits in moved]
    return [(up - down) / (2 * h) for up, down in zip(values[::2], values[1::2], strict=True)]


def test_divergences_and_their_gradients_equal_sums_and_finite_differences():
    report = kl_report(LOGITS, REFERENCE)
    p, q = share(LOGITS.tolist()), share(REFERENCE.tolist())
    assert report.kl == pytest.approx(divergence(p, q))
    assert report.reverse_kl == pytest.approx(divergence(q, p))
    assert report.gradient.tolist() == pytest.approx(
        slopes(lambda s: divergence(s, q), LOGITS.tolist()), abs=1e-8
    )
    assert report.reverse_gradient.tolist() == pytest.approx(
        slopes(lambda s: divergence(q, s), LOGITS.tolist()), abs=1e-8
    )


def test_mean_bias_and_spread_equal_sums_over_the_tokens():
    report = kl_report(LOGITS, REFERENCE)
    p, q = share(LOGITS.tolist()), share(REFERENCE.tolist())
    logs = [math.log(b / a) for a, b in zip(p, q, strict=True)]
    values = {
        "k1": [-x for x in logs],
        "k2": [x * x / 2 for x in logs],
        "k3": [math.exp(x) - 1 - x for x in logs],
    }
    assert set(report.estimators) == set(values)
    for name, of_token in values.items():
        mean = sum(a * v for a, v in zip(p, of_token, strict=True))
        std = math.sqrt(sum(a * (v - mean) ** 2 for a, v in zip(p, of_token, strict=True)))
        found = report.estimators[name]
        assert (found.mean, found.std) == pytest.approx((mean, std))
        assert found.bias == pytest.approx(mean - divergence(p, q), abs=1e-12)
    assert abs(report.estimators["k2"].bias) > 0.005


# Columns: as a loss, with the ratio, in the reward.
TABLE = {
    "k1": ["0", "∇KL(π‖ref)", "∇KL(π‖ref)"],
    "k2": ["∇KL(π‖ref)", "neither", "neither"],
    "k3": ["∇KL(ref‖π)", "∇KL(π‖ref)", "neither"],
}


def test_each_use_of_an_estimator_has_the_gradient_of_the_papers():
    report = kl_report(LOGITS, REFERENCE)
    for name, expected in TABLE.items():
        gradients = report.estimators[name].gradients.values()
        assert [gradient_name(g, report) for g in gradients] == expected
    shown = cells(kl_explorer())[1:]
    assert {row[0]: row[4:] for row in shown} == TABLE


def test_kl_buttons_and_sliders():
    explorer = kl_explorer()
    before = explorer.report
    explorer.swap_button.click()
    assert (explorer.report.kl, explorer.report.reverse_kl) == pytest.approx((before.reverse_kl, before.kl))
    explorer.reset_button.click()
    assert explorer.report.kl == pytest.approx(before.kl)
    explorer.policy[0].value = 3.0
    assert explorer.report.kl > before.kl and number(explorer.report.kl, 3) in status(explorer)
    explorer.equal_button.click()
    assert explorer.report.kl == 0 and "none by more than" in status(explorer)
    assert all(cell in ("0", "0.000") for row in cells(explorer)[1:] for cell in row[1:])


def test_kl_axes_hold_what_is_drawn():
    explorer = kl_explorer()
    for first in (3.0, -3.0):
        explorer.policy[0].value = first
        explorer.reference[0].value = -first
        for artist in (*explorer._spreads, *explorer._exact):
            low, high = explorer._values_axes.get_ylim()
            assert all(low <= y <= high for y in artist.get_ydata())
        for axes, lines, marks in explorer._uses.values():
            low, high = axes.get_ylim()
            shown = torch.cat([torch.as_tensor(a.get_ydata()) for a in (*lines, *marks)])
            assert ((low <= shown) & (shown <= high) | shown.isnan()).all()
    assert [round_limit(x) for x in (0, 0.1, 0.3, 1.9, 1.95)] == pytest.approx([0.01, 0.2, 0.5, 2, 5])


# The group


def test_weights_of_a_group_worked_by_hand():
    # One right answer of 2 tokens, one wrong of 4; mean ½, std (ddof 1) √½; 8 tokens at most; V = ¼.
    pulls = token_pulls(doubles(1, 0), (2, 4), max_length=8, value=0.25)
    advantage = 0.5 / (math.sqrt(0.5) + 1e-4)
    by_hand = {
        "GRPO": (advantage / 2 / 2, -advantage / 4 / 2),
        "Dr.GRPO": (0.5 / 8 / 2, -0.5 / 8 / 2),
        "DAPO": (advantage / 6, -advantage / 6),
        "RLOO": (1 / 2, -1 / 2),
        "GSPO": (advantage / 2 / 2, -advantage / 4 / 2),
        "CISPO": (advantage / 6, -advantage / 6),
        "PPO": (0.75 / 6, -0.25 / 6),
    }
    assert tuple(pulls) == VARIANTS == tuple(by_hand)
    for name, (right, wrong) in by_hand.items():
        expected = doubles(*[right] * 2, 0, 0), doubles(*[wrong] * 4)
        assert torch.allclose(pulls[name], torch.stack(expected)), name


@pytest.mark.parametrize("reward", [0.0, 1.0])
def test_a_group_that_agrees_moves_ppo_alone(reward):
    rewards = torch.full((3,), reward, dtype=torch.float64)
    pulls = token_pulls(rewards, (2, 5, 3), max_length=5, value=0.5)
    assert dropped(rewards) and not dropped(doubles(1, 1, 0))
    for name, pull in pulls.items():
        assert bool(pull.any()) == (name == "PPO"), name


def test_length_bias_is_that_of_grpo_and_gspo_alone():
    rewards, lengths = doubles(1, 0, 0, 1), (4, 16, 5, 6)
    pulls = token_pulls(rewards, lengths, max_length=16, value=0.5)
    for name, pull in pulls.items():
        ratio, short, long = length_bias(pull, rewards, lengths)
        if name in ("GRPO", "GSPO"):
            assert (ratio, short, long) == (pytest.approx(16 / 5), 2, 1)
        else:
            assert ratio == pytest.approx(1), name


def test_marking_answers_changes_words_table_and_bars():
    marker = group_marker(right=(True, False, False), lengths=(4, 5, 10), group_size=3)
    assert "DAPO keeps this group" in status(marker) and "weighs 2.00 times" in status(marker)
    assert "The same weight under Dr.GRPO, DAPO, RLOO, CISPO, PPO" in status(marker)
    assert marker.answers[0].description == "1: right, 4 tokens"
    bars = marker._bars["GRPO"]
    assert bars[1].get_height() == pytest.approx(2 * bars[2].get_height())
    assert bars[0].get_facecolor() != bars[1].get_facecolor()
    marker.answers[0].value = False
    assert status(marker).startswith("All 3 are wrong") and "DAPO drops the group" in status(marker)
    assert "pushes every token down, by R − V = −0.50" in status(marker)
    head, *rows = cells(marker)
    assert all(row[head.index("DAPO")] == "dropped" and row[head.index("GRPO")] == "0.0" for row in rows)
    assert marker._notes["DAPO"].get_text() == "dropped" and marker._notes["DAPO"].get_visible()
    assert not marker._notes["PPO"].get_visible() and not any(b.get_visible() for b in bars)


def test_the_group_grows_and_the_table_counts_whole_answers():
    marker = group_marker(group_size=2)
    for size in (2, 8, 5):
        marker.size.value = size
        assert len(cells(marker)) == size + 1 and list(marker._marks.children) == marker.answers[:size]
        assert f"A group of {size}:" in marker._picture.value
        assert sum(bar.get_visible() for bar in marker._bars["PPO"]) == size
    marker.answers[0].value, marker.answers[1].value = True, True
    each = cells(marker)
    marker.unit.value = "answer"
    whole = cells(marker)
    column = each[0].index("DAPO")
    assert float(whole[1][column]) == pytest.approx(4 * float(each[1][column]), abs=0.3)
    assert whole[1][each[0].index("GRPO")] == whole[2][each[0].index("GRPO")], "answers count alike"


# All of them


def test_what_moves_is_drawn_over_the_rest_and_the_rest_stays():
    figure, (axes,) = new_figure()
    (line,) = axes.plot([0, 1], [0, 1])
    picture = MovingFigure(figure, [line])
    alt = "A line that runs from one corner to the other."
    first = picture.html(alt)
    line.set_ydata([1, 0])
    assert picture.html(alt) != first
    line.set_ydata([0, 1])
    assert picture.html(alt) == first
    with pytest.raises(ValueError, match="alt text says what the figure shows"):
        picture.html("A line")


def test_numbers_are_printed_with_a_true_minus_and_no_negative_zero():
    assert [number(x, 1, sign=True) for x in (-1.25, 0.04, -0.04, 2)] == ["−1.2", "0.0", "0.0", "+2.0"]


def test_after_a_drag_the_picture_is_the_one_of_a_new_widget():
    dragged = clip_explorer()
    dragged.ratio.value, dragged.advantage.value, dragged.clip_low.value = 0.4, -1.0, 0.5
    dragged.dual_clip.value = 3.0
    assert dragged.still() == clip_explorer(0.4, -1.0, 0.5, 0.2, 3.0).still()
    dragged = kl_explorer()
    for control, value in zip(dragged.policy, (3, -3, 3, 0, 1), strict=True):
        control.value = value
    shown = dragged.still()
    assert shown == kl_explorer((3, -3, 3, 0, 1)).still()
    dragged._moving.redraw_rest()
    assert dragged.still() == shown, "the axes have followed"
    dragged.reset_button.click()
    assert dragged.still() == kl_explorer().still()
    dragged = group_marker()
    dragged.size.value, dragged.value_baseline.value = 8, 0.2
    dragged.answers[7].value = True
    right = [answer.value for answer in dragged.answers]
    assert dragged.still() == group_marker(right, group_size=8, value=0.2).still()


@pytest.mark.parametrize("make", [make for make, _ in MAKERS])
def test_moves_in_a_row_are_drawn_once(make, monkeypatch):
    monkeypatch.setattr(moving, "WAIT_SECONDS", 0.02)
    drawn = []

    async def drag():
        widget = make()
        real = widget.draw
        widget._draw_soon = moving.debounced(0.02)(lambda: (drawn.append(1), real()))
        control = next(w for w in descendants(widget) if isinstance(w, widgets.FloatSlider))
        before = widget._picture.value
        for i in range(10):
            control.value = control.min + i * control.step
        assert drawn == [] and widget._picture.value == before
        await asyncio.sleep(0.3)
        assert widget._picture.value != before

    asyncio.run(drag())
    assert drawn == [1]


@pytest.mark.parametrize(("make", "static"), MAKERS)
def test_names_keyboard_status_alt_text_and_still(make, static):
    widget = make()
    controls = [w for w in descendants(widget) if isinstance(w, widgets.ValueWidget | widgets.Button)]
    controls = [w for w in controls if not isinstance(w, widgets.HTML)]
    assert len(controls) >= 5
    for control in controls:
        assert control.description and control.tabbable is not False
        # JupyterLab takes the arrow keys and letters from these in command mode.
        assert not isinstance(control, widgets.Dropdown | widgets.Select | widgets.RadioButtons)
        assert getattr(control, "orientation", "horizontal") == "horizontal"
    assert 'aria-live="polite"' in widget._status.value
    still = widget._repr_mimebundle_()["text/html"]
    assert still == widget.still() == static().data
    alt = re.search('<img alt="(.*?)"', still)[1]
    assert len(alt.split()) > 40


@pytest.mark.parametrize(
    ("make", "settings", "says"),
    [
        (clip_explorer, {"advantage": 2.0}, "they are 1 or -1, and None or 3"),
        (clip_explorer, {"dual_clip": 2.0}, "they are 1 or -1, and None or 3"),
        (clip_explorer, {"clip_low": 1.2}, "clip_low is 1.2; it lies between 0 and 0.95"),
        (kl_explorer, {"logits": (1, 2)}, "give 5 numbers from -3 to 3"),
        (kl_explorer, {"reference_logits": (0, 0, 0, 0, 9)}, "reference_logits is .* give 5 numbers"),
        (group_marker, {"lengths": (1, 2)}, "right has 8 marks and lengths is"),
        (group_marker, {"group_size": 1}, "they lie between 2 and 8, and 0 and 1"),
    ],
)
def test_settings_out_of_reach_are_refused_in_words(make, settings, says):
    with pytest.raises(ValueError, match=says):
        make(**settings)
