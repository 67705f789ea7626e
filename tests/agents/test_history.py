"""What is kept of h_t, by hand for every kind of history, in both forms."""

import pytest

from labkit.agents.forms import TextForm, WordForm
from labkit.agents.history import History, shown
from labkit.agents.words import tokenizer
from labkit.envs.trajectory import Step

WORDS = WordForm(tokenizer())
GOAL = "open the WiFi"
# h_4 and o_4: the first step has ids, as if sampled; nothing was thought at the second.
H4 = (
    Step("Home :", "open Settings", "open Settings", ids=tuple(WORDS.ids("<think> WiFi <act> back <eos>"))),
    Step("Settings :", "", "open Network"),
    Step("Network :", "WiFi off", "open WiFi"),
)
O4 = "WiFi : off"

CASES = {
    "full": (
        History(),
        "<bos> open the WiFi <obs> Home : <think> WiFi <act> back <eos> <obs> Settings : <act> open Network "
        "<eos> <obs> Network : <think> WiFi off <act> open WiFi <eos> <obs> WiFi : off",
    ),
    "full, thoughts dropped": (
        History(thoughts=False),
        "<bos> open the WiFi <obs> Home : <act> open Settings <eos> <obs> Settings : <act> open Network "
        "<eos> <obs> Network : <act> open WiFi <eos> <obs> WiFi : off",
    ),
    "blind": (
        History(observations=False),
        "<bos> open the WiFi <obs> Home : <think> WiFi <act> back <eos> <act> open Network <eos> "
        "<think> WiFi off <act> open WiFi <eos>",
    ),
    "blind, thoughts dropped": (
        History(thoughts=False, observations=False),
        "<bos> open the WiFi <obs> Home : <act> open Settings <eos> <act> open Network <eos> "
        "<act> open WiFi <eos>",
    ),
    "window of 1": (
        History("window", window=1),
        "<bos> open the WiFi <obs> Network : <think> WiFi off <act> open WiFi <eos> <obs> WiFi : off",
    ),
    "window of 2, thoughts dropped": (
        History("window", window=2, thoughts=False),
        "<bos> open the WiFi <obs> Settings : <act> open Network <eos> <obs> Network : <act> open WiFi <eos> "
        "<obs> WiFi : off",
    ),
    "summary": (
        History("summary"),
        "<bos> open the WiFi <done> open Settings , open Network , open WiFi <obs> WiFi : off",
    ),
    "none": (History("none"), "<bos> open the WiFi <obs> WiFi : off"),
}


@pytest.mark.parametrize("history, prompt", CASES.values(), ids=CASES)
def test_words_the_prompt_of_step_4_is_the_one_written_by_hand(history, prompt):
    assert WORDS.prompt(GOAL, H4, O4, history) == prompt
    assert WORDS.prompt_ids(GOAL, H4, O4, history) == WORDS.ids(prompt)


@pytest.mark.parametrize("history", [case[0] for case in CASES.values()], ids=CASES)
def test_at_the_first_step_every_kind_shows_goal_and_observation_alone(history):
    assert WORDS.prompt(GOAL, [], "Home :", history) == "<bos> open the WiFi <obs> Home :"
    assert TextForm().prompt(GOAL, [], "Home :", history) == "Goal: open the WiFi\nObservation: Home :\n"


def test_a_window_longer_than_the_episode_is_the_full_history():
    for window in (3, 4, 100):
        assert shown(History("window", window), H4, O4) == shown(History(), H4, O4)


def test_text_the_same_parts_in_blocks_at_line_starts():
    assert TextForm().prompt(GOAL, H4, O4, History("window", window=2)) == (
        "Goal: open the WiFi\n"
        "Observation: Settings :\nAction: open Network\n"
        "Observation: Network :\nThought: WiFi off\nAction: open WiFi\n"
        "Observation: WiFi : off\n"
    )
    assert TextForm().prompt(GOAL, H4, O4, History("summary")) == (
        "Goal: open the WiFi\nDone: open Settings , open Network , open WiFi\nObservation: WiFi : off\n"
    )
    assert TextForm().prompt(GOAL, H4[:1], O4, History(thoughts=False, observations=False)) == (
        "Goal: open the WiFi\nObservation: Home :\nAction: open Settings\n"
    )


def test_ids_go_only_with_a_thought_that_is_dropped():
    silent = Step("Home :", "", "home", ids=(7, 8, 9))
    unread = Step("Home :", "", "", failures=("format",), written="<think> WiFi off", ids=(7, 8))
    assert WORDS.step_ids(shown(History(thoughts=False), [silent], O4).steps[0]) == [7, 8, 9]
    # What could not be read may be a thought, so that nothing of it stays.
    assert WORDS.step_ids(shown(History(thoughts=False), [unread], O4).steps[0]) == WORDS.ids("<act> <eos>")
    assert WORDS.step_ids(shown(History(), [unread], O4).steps[0]) == [7, 8]


@pytest.mark.parametrize("kind", ["full", "window", "summary", "none"])
def test_the_step_itself_and_later_ones_are_never_shown(kind):
    # Each word of the present step and of those after it is its own.
    steps = (Step("Home :", "Mute", "back"), Step("Sound :", "Lock", "home"), Step("Privacy :", "Chat", "ok"))
    for t in (1, 2, 3):
        prompt = WORDS.prompt(GOAL, steps[: t - 1], steps[t - 1].observation, History(kind)).split()
        for later in steps[t - 1 :]:
            assert later.thought not in prompt and later.action not in prompt
        for later in steps[t:]:
            assert later.observation.split()[0] not in prompt
        assert steps[t - 1].observation.split()[0] in prompt


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"kind": "all"}, "'all' is not one of full, window"),
        ({"kind": "window", "window": 0}, "at least 1 step"),
        ({"kind": "none", "observations": False}, "needs its full history"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        History(**fields)
