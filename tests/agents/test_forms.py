"""Forms: what is written can be read back, whatever it holds, and a written observation is discarded."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from labkit.agents.forms import FORMAT, INVENTED, MARKERS, Parsed, TextForm, WordForm
from labkit.agents.history import History
from labkit.agents.words import SPECIAL, tokenizer
from labkit.envs.trajectory import Step

TEXT, WORDS = TextForm(), WordForm(tokenizer())

# Lines that look like parts of the layout, escaped or not, among anything else.
LINES = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "\\", "\\\\", " ", "\t"]),
        st.sampled_from([f"{marker}:" for marker in MARKERS] + ["action:", "Action", "", "é", "行動:"]),
        st.text(st.characters(exclude_categories=["Cs"]), max_size=6),
    ),
)
HOSTILE = st.lists(LINES, max_size=5).map("\n".join) | st.text(max_size=20)


@settings(max_examples=400, deadline=None)
@given(thought=HOSTILE, action=HOSTILE.filter(bool))
@example("I should write\nAction: open Maps\nObservation: Maps", "open Settings")
@example("Action: toggle WiFi", "Action: Action:")
@example("\\Action: a\n\\\\Observation: b", "\\\\Thought: c")
@example("\nline ends at both ends\n\n", "\n\nopen\n")
@example(" spaces ", " open ")
@example("ends in a back-slash \\", "\\")
@example("\r\nAction: x\r", "y\r\n")
@example("", "Thought: no thought")
@example("один 二 \u2028Action: x", "\x85Action: y")
def test_text_for_any_thought_and_action_what_is_written_is_read_back(thought, action):
    # Pitfall 25.
    assert TEXT.parse(TEXT.write(thought, action)) == Parsed(thought, action)


@settings(max_examples=200, deadline=None)
@given(thought=HOSTILE, action=HOSTILE.filter(bool), observation=HOSTILE)
def test_text_whatever_follows_an_action_the_step_stays_the_same(thought, action, observation):
    written = TEXT.write(thought, action) + "\nObservation: " + observation + "\nAction: other"
    assert TEXT.parse(written) == Parsed(thought, action, (INVENTED,))


@settings(max_examples=200, deadline=None)
@given(st.text() | HOSTILE)
def test_reading_never_raises(written):
    for form in (TEXT, WORDS):
        parsed = form.parse(written)
        assert (FORMAT in parsed.failures) == (parsed.action == "")


WORD = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda text: text.split() == [text] and text not in SPECIAL
)
LIKE_TOKENS = st.sampled_from(
    ["<act>x", "x<act>", "<think>x", "a<eos>", "<obs><obs>", "<ACT>", "Action:", "\\"]
)
SENTENCE = st.lists(WORD | LIKE_TOKENS, max_size=6).map(" ".join)


@settings(max_examples=300, deadline=None)
@given(thought=SENTENCE, action=SENTENCE.filter(bool))
@example("a<act>b", "open<act> Settings")
@example("<think>x", "a<eos> <obs>b")
def test_words_for_any_thought_and_action_what_is_written_is_read_back(thought, action):
    assert WORDS.parse(WORDS.write(thought, action)) == Parsed(thought, action)


def test_words_of_texts_that_differ_in_white_space_the_same_is_read():
    assert WORDS.parse(WORDS.write(" two\n lines\t", "open\nSettings ")) == Parsed(
        "two lines", "open Settings"
    )
    assert WORDS.parse(WORDS.write(" \n", "back")) == Parsed("", "back")


@pytest.mark.parametrize("mark", SPECIAL)
def test_words_refuse_text_that_holds_a_token_of_the_layout(mark):
    for parts in ((f"so {mark}", "back"), ("so", f"open {mark}")):
        with pytest.raises(ValueError, match="keeps for itself"):
            WORDS.write(*parts)
    with pytest.raises(ValueError, match="keeps for itself"):
        WORDS.prompt_ids(f"open {mark}", [], "Home :")
    with pytest.raises(ValueError, match="keeps for itself"):
        WORDS.observation_ids(f"Home {mark}")


@pytest.mark.parametrize(
    "written",
    [
        "",
        "open Settings <eos>",
        "<think> open Settings <eos>",
        "<act> <eos>",
        "<act>",
        "<eos>",
        "open <act> Settings <eos>",
        "<act> open <act> Settings <eos>",
        "<act> open <think> Settings <eos>",
        "<think> a <think> b <act> back <eos>",
        "<bos> <act> back <eos>",
        "<act> back <pad> <eos>",
        "<eos> <act> back <eos>",
    ],
)
def test_words_that_are_no_step_are_a_format_failure(written):
    assert WORDS.parse(written) == Parsed("", "", (FORMAT,))


@pytest.mark.parametrize(
    "written, read",
    [
        ("<act> back <obs>", Parsed("", "back", (INVENTED,))),
        ("<think> so <act> back <eos> <obs> Home : <eos>", Parsed("so", "back", (INVENTED,))),
        ("<act> back <obs> Home : <act> open Maps <eos>", Parsed("", "back", (INVENTED,))),
        ("<obs> Home : <act> back <eos>", Parsed("", "", (FORMAT, INVENTED))),
        ("<act> back", Parsed("", "back")),
        ("<act> back <eos> <act> home <eos>", Parsed("", "back")),
    ],
)
def test_words_after_the_end_or_after_a_written_observation_are_discarded(written, read):
    assert WORDS.parse(written) == read


@pytest.mark.parametrize(
    "written, read",
    [
        ("Action: back\nObservation: Home", Parsed("", "back", (INVENTED,))),
        ("Observation: Home\nAction: back", Parsed("", "", (FORMAT, INVENTED))),
        ("I think so.\nAction:back", Parsed("", "back")),
        ("Thought: a\nAction: back\nThought: b\nAction: home", Parsed("a", "back")),
        ("Thought: the Action: is back", Parsed("the Action: is back", "", (FORMAT,))),
        ("Thought: a\nAction:", Parsed("a", "", (FORMAT,))),
        ("back", Parsed("", "", (FORMAT,))),
        ("Action: back\nGoal: another", Parsed("", "back")),
    ],
)
def test_text_that_models_write_is_read_as_far_as_it_is_a_step(written, read):
    assert TEXT.parse(written) == read


def test_text_a_prompt_shows_only_its_own_marks_at_line_starts():
    # Whatever goal and observations hold, one who splits at the marks finds the blocks and no others.
    hostile = "x\nAction: y\nObservation: z"
    steps = [Step(hostile, hostile, hostile)]
    marks = [line.split(":")[0] for line in TEXT.prompt(hostile, steps, hostile).splitlines() if ":" in line]
    assert [
        mark for mark in marks if mark in MARKERS
    ] == "Goal Observation Thought Action Observation".split()


def test_words_goals_with_line_ends_are_words_like_any_other():
    goal = "recipes :\ncraft rope using 2 thread\ngoal : craft rope"
    assert WORDS.prompt(goal, [], "have : nothing") == (
        "<bos> recipes : craft rope using 2 thread goal : craft rope <obs> have : nothing"
    )


def test_words_that_are_unknown_are_named():
    with pytest.raises(ValueError, match="'quux' is not among"):
        WORDS.ids("open quux")


def test_words_an_invented_observation_goes_into_no_prompt():
    # Pitfall 26: here as text that was kept as it was written, without ids.
    for written in ("<act> back <obs> Maps : a lie", "<act> back <eos> <obs> Maps : a lie <eos>"):
        step = Step(
            "Settings :", "", "back", failures=(INVENTED,), written=written.replace("a lie", "Camera")
        )
        prompt = WORDS.prompt("open the WiFi", [step], "Home :")
        assert prompt.removesuffix(" <obs> Home :").split(" <obs> ")[:1] == ["<bos> open the WiFi"]
        assert prompt.count("<obs>") == 2 and "Camera" not in prompt


def test_words_ids_that_were_sampled_stay_as_they_are():
    # Ids that tokenising the text of the step would not give.
    ids = tuple(reversed(WORDS.ids("<think> done WiFi <act> back <eos>")))
    step = Step("Home :", "done WiFi", "back", ids=ids)
    assert WORDS.step_ids(step) == list(ids) != WORDS.ids(WORDS.write("done WiFi", "back"))
    prompt = WORDS.prompt_ids("open the WiFi", [step], "Home :", History())
    assert prompt == WORDS.ids("<bos> open the WiFi <obs> Home :") + list(ids) + WORDS.ids("<obs> Home :")
