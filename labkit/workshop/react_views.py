"""How the parts of a stepped episode look: cards for one step, a table for all of them."""

from __future__ import annotations

import html
import re
from collections.abc import Mapping

from labkit.plotting import COLOURS
from labkit.workshop.controls import BAD, GOOD, MARK, PLAIN, badge_html
from labkit.workshop.moving import number
from labkit.workshop.react_episode import FINISHED, TERMINATED, TRUNCATED, Moment, SteppedEpisode, Turn

HIDDEN = badge_html("hidden from the policy", PLAIN)
_BORDERS = {
    "seen": f"1px solid {COLOURS['sky']};border-left:6px solid {COLOURS['sky']}",
    "written": f"1px solid {COLOURS['orange']};border-left:6px solid {COLOURS['orange']}",
    "hidden": "2px dashed #8A8A8A",
    "plain": "1px solid #8A8A8A",
}
"""Borders tell what the policy sees, what it writes and what is hidden from it, which is dashed."""
_PART = re.compile(r"([A-Za-z][\w ]*?) ?: (.*)")
_LEFT = "text-align:left;vertical-align:top;padding:2px 8px 2px 0"
_CELL = "text-align:left;vertical-align:top;padding:4px 10px;white-space:pre-wrap"


def symbol(letter: str, t: int) -> str:
    """A symbol with its index, e.g. o₃ as HTML."""
    return f"<i>{letter}</i><sub>{t}</sub>"


def text_html(text: str) -> str:
    """Text with its line ends; a dash for none."""
    return f'<span style="white-space:pre-wrap">{html.escape(text) or "–"}</span>'


def parts_of(moment: Moment) -> Mapping[str, str] | None:
    """The parts of `render()`, if each of its lines is `name: value`; the goal is left out."""
    found = [_PART.fullmatch(line) for line in moment.rendered.split("\n")]
    return {part[1]: part[2] for part in found if part[1] != "goal"} if all(found) else None


def changed_parts(before: Moment, after: Moment) -> tuple[str, ...]:
    """Names of the parts that differ; none where states have no parts."""
    old, new = parts_of(before) or {}, parts_of(after) or {}
    return tuple(name for name, value in new.items() if old.get(name) != value)


def state_html(moment: Moment, before: Moment | None = None) -> str:
    """A hidden state; what differs from the one before is marked."""
    parts = parts_of(moment)
    if parts is None:
        scroll = 'style="max-height:260px;overflow:auto" tabindex="0" role="region" aria-label="state"'
        return f"<div {scroll}>{text_html(moment.rendered)}</div>"
    changed = changed_parts(before, moment) if before else ()
    return _pairs_html(
        {
            html.escape(name): _marked(value, "changed") if name in changed else html.escape(value)
            for name, value in parts.items()
        }
    )


def observation_html(moment: Moment) -> str:
    """What the policy sees, and the world's picture of it where it has one."""
    picture = getattr(moment.world, "picture", None)
    shown = f'<div class="labkit-screen" style="margin-top:6px">{picture()}</div>' if picture else ""
    return f"<div>{text_html(moment.observation)}</div>{shown}"


def alias_text(episode: SteppedEpisode, t: int) -> str:
    """That o_t does not tell the state, where this episode shows it; else ""."""
    others = episode.aliases(t)
    if not others:
        return ""
    seen = " and ".join(f"t={other}" for other in others)
    states = "in another state" if len(others) == 1 else "in other states"
    return f"o_{t} was also seen at {seen}, {states}: the observation alone does not tell them apart."


def end_text(episode: SteppedEpisode) -> str:
    """How the episode ended; "" if it has not."""
    moment, t = episode.moments[-1], len(episode.moments)
    if not moment.end:
        return ""
    if moment.end == TERMINATED:
        why = "the goal holds" if episode.turns[-1].step.reward > 0 else "by the world's own rules"
        return f"terminated: {why}"
    if moment.end == FINISHED:
        return "neither terminated nor truncated: the policy said finish, and the goal does not hold"
    return (
        f"truncated: the budget of {moment.world.max_steps} steps is used up; s_{t} is not terminal "
        "and still has a value"
    )


def history_html(episode: SteppedEpisode, t: int) -> str:
    """h_t as a table. Step t is not in it, and the caption says so."""
    steps = "Empty" if t == 1 else "Step 1" if t == 2 else f"Steps 1 to {t - 1}"
    caption = f"{steps}. Step {t} is not in it: that is what the policy is about to write."
    # The heads stay in sight while the rows scroll under them.
    stays = f"{_LEFT};position:sticky;top:0;background:var(--jp-layout-color0,Canvas)"
    head = "".join(
        f'<th scope="col" style="{stays}">{name}</th>' for name in ("t", "o", "ρ", "a", "chosen by")
    )
    rows = "".join(
        f'<tr><th scope="row" style="{_LEFT}">{k}</th>'
        + "".join(
            f'<td style="{_LEFT}">{cell}</td>'
            for cell in (
                html.escape(turn.step.observation),
                html.escape(turn.step.thought) or "–",
                html.escape(turn.step.action) or "–",
                by_html(turn),
            )
        )
        + "</tr>"
        for k, turn in enumerate(episode.turns[: t - 1], 1)
    )
    table = f'<table style="border:0;margin:0"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    # Reversed, so that a long table shows its end.
    scroll = "display:flex;flex-direction:column-reverse;max-height:170px;overflow:auto"
    shown = f'<div style="{scroll}" tabindex="0" role="region" aria-label="history">{table}</div>'
    return f"<div>{caption}</div>{shown if t > 1 else ''}"


def by_html(turn: Turn) -> str:
    """Who chose a step, and what it branched from."""
    if turn.instead is None:
        return html.escape(turn.by)
    branch = _marked(f"branch: instead of {turn.instead or 'nothing'}")
    return f"{html.escape(turn.by)} {branch}"


def choice_html(turn: Turn) -> str:
    """Thought and action of a step, with what went wrong."""
    step = turn.step
    failures = " ".join(badge_html(f"✗ {kind}", BAD) for kind in step.failures)
    rows = {"ρ": text_html(step.thought), "a": f"<b>{text_html(step.action)}</b>"}
    if step.written is not None:
        rows["written"] = text_html(step.written)
    return f"{_pairs_html(rows)}<div>chosen by {by_html(turn)} {failures}</div>"


def outcome_html(episode: SteppedEpisode, t: int) -> str:
    """Reward of step t, both flags and, where the episode is over, how it ended."""
    after = episode.moments[t]
    flags = " ".join(
        badge_html(f"{name} {'✓ yes' if after.end == name else 'no'}", GOOD if after.end == name else PLAIN)
        for name in (TERMINATED, TRUNCATED)
    )
    reward = f"<div>reward <b>{number(episode.turns[t - 1].step.reward)}</b></div>"
    end = f"<div>{html.escape(end_text(episode))}</div>" if after.end else ""
    return f'{reward}<div style="margin:4px 0">{flags}</div>{end}'


def step_html(episode: SteppedEpisode, t: int) -> str:
    """Every symbol of step t, side by side; after the last step, what is left of them."""
    here, alias = episode.moments[t - 1], alias_text(episode, t)
    warning = f'<div style="margin-top:6px">{_marked(alias)}</div>' if alias else ""
    cards = [
        _card("seen", "<i>g</i>", "goal", text_html(episode.goal), wide=True),
        _card("seen", symbol("h", t), "history", history_html(episode, t), wide=True),
        _card("hidden", symbol("s", t), f"state {HIDDEN}", state_html(here)),
        _card("seen", symbol("o", t), f"= Ω({symbol('s', t)})", observation_html(here) + warning),
    ]
    if t > episode.length:
        cards.append(_card("plain", "end", "", html.escape(end_text(episode))))
    else:
        after = episode.moments[t]
        names = f"{symbol('ρ', t)}, {symbol('a', t)}"
        transition = f"= T({symbol('s', t)}, {symbol('a', t)}) {HIDDEN}"
        cards += [
            _card("written", names, "thought and action", choice_html(episode.turns[t - 1])),
            _card("hidden", symbol("s", t + 1), transition, state_html(after, here)),
            _card("seen", symbol("o", t + 1), f"= Ω({symbol('s', t + 1)})", observation_html(after)),
            _card("plain", symbol("r", t), "what came of it", outcome_html(episode, t)),
        ]
    grid = "display:grid;grid-template-columns:repeat(auto-fit,minmax(min(240px,100%),1fr));gap:8px"
    style = "<style>.labkit-screen svg{width:120px;height:auto}</style>"
    return f'{style}<div style="{grid};line-height:1.4">{"".join(cards)}</div>'


def episode_html(episode: SteppedEpisode) -> str:
    """All steps so far as a table with the same symbols, one row a step."""
    names = ("t", f"<i>s<sub>t</sub></i> {HIDDEN}", "<i>o<sub>t</sub></i>", "<i>ρ<sub>t</sub></i>")
    names = (*names, "<i>a<sub>t</sub></i>", "chosen by", "reward")
    head = "".join(f'<th scope="col" style="{_CELL}">{name}</th>' for name in names)
    rows = []
    for t, moment in enumerate(episode.moments, 1):
        alias = alias_text(episode, t)
        seen = html.escape(moment.observation) + (f"<br/>{_marked(alias)}" if alias else "")
        cells = [_state_cell(episode, t), seen]
        if t <= episode.length:
            turn = episode.turns[t - 1]
            failures = "".join(f" {badge_html(f'✗ {kind}', BAD)}" for kind in turn.step.failures)
            action = f"<b>{html.escape(turn.step.action) or '–'}</b>{failures}"
            thought = html.escape(turn.step.thought) or "–"
            cells += [thought, action, by_html(turn), number(turn.step.reward)]
        else:
            cells.append(html.escape(end_text(episode)))
        # What is said of the end takes the place of a choice.
        wide = "" if t <= episode.length else ' colspan="4"'
        body = "".join(
            f'<td style="{_CELL}"{wide if i == 2 else ""}>{cell}</td>' for i, cell in enumerate(cells)
        )
        rows.append(f'<tr><th scope="row" style="{_CELL}">{t}</th>{body}</tr>')
    return (
        f"<p><b><i>g</i></b> goal: {text_html(episode.goal)}</p>"
        f'<table style="line-height:1.4"><caption style="text-align:left">The history '
        "<i>h<sub>t</sub></i> at step t is the columns o, ρ and a of the rows above row t, without row t "
        f"itself.</caption><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    )


def _state_cell(episode: SteppedEpisode, t: int) -> str:
    moment = episode.moments[t - 1]
    parts = parts_of(moment)
    if parts is None:
        return html.escape(moment.rendered)
    if t == 1:
        return html.escape("\n".join(f"{name}: {value}" for name, value in parts.items()))
    changed = changed_parts(episode.moments[t - 2], moment)
    return html.escape("\n".join(f"{name}: {parts[name]}" for name in changed)) or "as before"


def _card(kind: str, name: str, title: str, body: str, wide: bool = False) -> str:
    place = "grid-column:1/-1;" if wide else ""
    return (
        f'<section style="{place}border:{_BORDERS[kind]};border-radius:6px;padding:6px 10px;min-width:0">'
        f'<div style="margin-bottom:4px"><b style="font-size:115%">{name}</b> {title}</div>{body}</section>'
    )


def _pairs_html(pairs: Mapping[str, str]) -> str:
    """Names and values, both HTML, a line each."""
    rows = "".join(
        f'<tr><th scope="row" style="{_LEFT};font-weight:normal;opacity:.75;white-space:nowrap">{name}</th>'
        f'<td style="{_LEFT}">{value}</td></tr>'
        for name, value in pairs.items()
    )
    return f'<table style="border:0;margin:0">{rows}</table>'


def _marked(text: str, note: str = "") -> str:
    background, colour = MARK
    after = f" <em>({note})</em>" if note else ""
    return (
        f'<mark style="background:{background};color:{colour};padding:0 3px;border-radius:3px">'
        f"{html.escape(text)}{after}</mark>"
    )
