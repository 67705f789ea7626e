"""What a learner sees, in plain Python and in a notebook."""

import inspect
import sys

import ipywidgets
import nbformat
import pytest
from nbclient import NotebookClient

from labkit.envs.points24.data import out_of_distribution
from labkit.workshop import exercises, learner, predictions, progress, rendering
from labkit.workshop.exercises import get, of_notebook
from labkit.workshop.learner import check, guess, hint, predict, reveal, show, solution
from tests.workshop.wrong_answers_03 import RIGHT

ID = "03.completion_mask"


def stub_of(exercise):
    namespace = {}
    exec(exercise.stub, namespace)
    return namespace[exercise.answer_name]


def entry(id=ID):
    return progress.read()["exercises"].get(id, {})


def everything_kept(ids, prompt_lengths, eos_id, pad_id):
    return ids == ids


def test_show_says_what_to_do_and_how_long_it_takes(capsys):
    show(ID)
    text = capsys.readouterr().out
    exercise = get(ID)
    assert exercise.title in text and exercise.stub in text and exercise.why[0] in text
    assert "10 minutes, difficulty 2 of 5, importance 5 of 5" in text
    assert exercise.why[1] not in text
    assert "<details>" not in text and "**" not in text
    assert f"hint('{ID}')" in text


@pytest.mark.parametrize("exercise", of_notebook("03"), ids=lambda e: e.id)
def test_a_stub_is_not_attempted_yet_and_not_counted(exercise, capsys, progress_file):
    result = check(exercise.id, stub_of(exercise))
    assert not result.passed and not result.attempted
    assert "Not attempted yet" in capsys.readouterr().out
    assert check(exercise.id).mistake == exercises.NOT_ATTEMPTED
    assert not progress_file.exists()


def test_results_say_in_words_how_it_went(capsys):
    assert not check(ID, everything_kept).passed
    text = capsys.readouterr().out
    assert "✗ Not yet: What is trained on" in text and "prompt tokens" in text and "4 hints left" in text
    assert (entry()["attempts"], entry()["mistakes"]) == (1, {"prompt_kept": 1})
    assert entry()["answer"] == inspect.getsource(everything_kept)
    assert check(ID, get(ID).solution).passed
    assert "✓ Solved: What is trained on" in capsys.readouterr().out
    assert entry()["solved"]


def test_an_answer_with_an_error_is_told_kindly_and_never_raises(capsys):
    def typo(ids, prompt_lengths, eos_id, pad_id):
        return idss > 0  # noqa: F821

    check(ID, typo)
    text = capsys.readouterr().out
    assert "NameError: name 'idss' is not defined" in text and "`return idss > 0" in text
    assert "Traceback" not in text
    assert entry()["mistakes"] == {"raised": 1}


def test_hints_come_one_by_one_and_are_counted(capsys):
    hints = get(ID).hints
    for number, text in enumerate(hints, 1):
        hint(ID)
        shown = capsys.readouterr().out
        assert f"Hint {number} of {len(hints)}" in shown
        assert text.split("\n")[0][:40] in shown
        assert "last one" not in shown
    hint(ID)
    assert (
        f"Hint {len(hints)} of" in (shown := capsys.readouterr().out)
        and "solution('03.completion_mask')" in shown
    )
    assert entry()["hints"] == len(hints)
    check(ID, everything_kept)
    assert "All hints are shown." in capsys.readouterr().out


def test_the_solution_is_labkits_source(capsys):
    solution("03.ood_hands")
    text = capsys.readouterr().out
    assert inspect.getsource(out_of_distribution).rstrip() in text
    assert "labkit.envs.points24.data.out_of_distribution" in text
    assert get("03.ood_hands").why[1] in text
    assert entry("03.ood_hands")["solution_shown"]


def test_a_reference_answer_is_shown_as_code_that_passes(capsys):
    exercise = get("03.design_control")
    text = learner.solution_text(exercise)
    namespace = {}
    exec(text.partition("```python\n")[2].partition("```")[0], namespace)
    assert exercise.check(namespace[exercise.answer_name]).passed


def test_labkits_own_function_handed_in_is_not_ones_own_answer():
    check("03.ood_hands", out_of_distribution)
    assert entry("03.ood_hands")["solved"] and not entry("03.ood_hands")["unaided"]


def test_progress_tells_all_and_each(capsys):
    check(ID, RIGHT[ID][0])
    hint("03.exact_value")
    solution("03.ood_hands")
    check("03.ood_hands", RIGHT["03.ood_hands"][0])
    check("03.exact_value", lambda expr: 1)
    capsys.readouterr()
    learner.progress("03")
    text = capsys.readouterr().out
    assert "2 of 8 solved (1 after seeing the solution), 1 hint used" in text
    assert "What is trained on: solved, 1 attempt\n" in text
    assert "A verifier that is never wrong: open, 1 attempt, 1 hint\n" in text
    assert "A fair out-of-distribution test: solved, after seeing the solution, 1 attempt" in text
    learner.progress()
    assert "Notebook 03: 2 of 8 solved" in capsys.readouterr().out


def test_a_wrong_id_names_the_right_one():
    for call in (show, check, hint, solution):
        with pytest.raises(ValueError, match="did you mean"):
            call("03.completion_maks")


def test_no_output_tells_where_files_lie(capsys, tmp_path):
    show(ID), check(ID, everything_kept), hint(ID), learner.progress(), learner.progress("03")
    predict("03.p", "How much?", (0, 1)), reveal("03.p", 0.5)
    assert str(tmp_path) not in capsys.readouterr().out


def test_works_without_ipython_and_ipywidgets(monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "IPython", None)
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    assert not rendering.in_notebook() and not rendering.widgets_available()
    show(ID), check(ID, None), hint(ID), predict("03.p", "How much?", (0, 1)), reveal("03.p", 0.5)
    assert "Measured: 0.5" in capsys.readouterr().out


def test_plain_text_drops_markup_but_not_code():
    details = "<details><summary>More</summary>\n\nx &lt; y\n\n</details>"
    markdown = f"**Bold** `<eos> ** 2`\n\n{details}\n```\n**kept** <div>\n```"
    assert rendering.plain(markdown) == "Bold `<eos> ** 2`\n\nMore\n\nx &lt; y\n\n```\n**kept** <div>\n```"


# Predictions.


def test_a_guess_in_a_range_is_scored_by_distance(capsys):
    predict("03.p", "How much?", (0, 2))
    text = capsys.readouterr().out
    assert "How much?" in text and "between 0 and 2" in text and "guess('03.p', 1)" in text
    guess("03.p", 0.5)
    reveal("03.p", 0.7)
    text = capsys.readouterr().out
    assert "Measured: 0.7" in text and "close (0.2 too low; 90 of 100 points)" in text
    assert progress.read()["predictions"]["03.p"] == {
        "options": [0, 2],
        "guess": 0.5,
        "value": 0.7,
        "score": 0.9,
    }


@pytest.mark.parametrize(
    ("guessed", "words"), [(0.51, "very close"), (0.6, "close"), (0.8, "some way off"), (1, "far")]
)
def test_words_for_a_distance(guessed, words, capsys):
    predict("03.p", "?", (0, 1))
    guess("03.p", guessed)
    reveal("03.p", 0.5)
    assert f": {words}" in capsys.readouterr().out


def test_a_guess_among_choices_is_right_or_wrong(capsys):
    predict("03.p", "Which way?", ["up", "down"])
    guess("03.p", "down")
    reveal("03.p", "up")
    text = capsys.readouterr().out
    assert "Measured: up" in text and "Your guess was *down*." in text
    guess("03.p", "up")
    reveal("03.p", "up")
    assert "right" in capsys.readouterr().out
    assert progress.read()["predictions"]["03.p"]["score"] == 1.0


def test_revealing_works_without_a_guess_or_a_question(capsys):
    reveal("03.never", 0.25)
    predict("03.p", "Which?", ["a", "b"])
    reveal("03.p", "b")
    text = capsys.readouterr().out
    assert "Measured: 0.25" in text and "Measured: b" in text and text.count("No guess was made.") == 2


def test_a_guess_kept_from_an_older_kind_of_question_does_not_break_revealing(capsys):
    predict("03.p", "Which?", ["a", "b"])
    guess("03.p", "a")
    predict("03.p", "How much?", (0, 1))
    reveal("03.p", 0.5)
    assert "No guess was made." in capsys.readouterr().out


@pytest.mark.parametrize("options", [(1, 0), (0,), ["one"], [1, 2, 3], ["a", 1], [True, False], []])
def test_options_that_are_neither_range_nor_choices(options):
    with pytest.raises(ValueError, match="neither|not a range"):
        predict("03.p", "?", options)


def test_impossible_guesses_and_values_are_refused():
    predict("03.p", "?", (0, 1))
    predict("03.q", "?", ["a", "b"])
    for id, value in (("03.p", 2), ("03.p", "a"), ("03.q", "c"), ("03.q", 1)):
        with pytest.raises(ValueError, match="is not"):
            guess(id, value)
    with pytest.raises(ValueError, match="is not one of 'a', 'b'"):
        reveal("03.q", "c")


def widgets_in(widget):
    return [widget, *(w for child in getattr(widget, "children", ()) for w in widgets_in(child))]


def only(kind, widget):
    (found,) = [w for w in widgets_in(widget) if isinstance(w, kind)]
    return found


def test_toggle_buttons_keep_a_choice_and_start_with_none():
    control = predictions.prediction_control("03.p", ["a", "b"])
    buttons, note = only(ipywidgets.ToggleButtons, control), only(ipywidgets.HTML, control)
    assert buttons.value is None and note.value == "No guess yet."
    assert "guess" not in progress.read()["predictions"].get("03.p", {})
    buttons.value = "b"
    assert progress.read()["predictions"]["03.p"]["guess"] == "b" and "<b>b</b>" in note.value
    assert only(ipywidgets.ToggleButtons, predictions.prediction_control("03.p", ["a", "b"])).value == "b"


def test_the_slider_keeps_a_guess_when_moved_or_by_its_button():
    control = predictions.prediction_control("03.p", (0, 10))
    slider, button = only(ipywidgets.FloatSlider, control), only(ipywidgets.Button, control)
    assert not slider.continuous_update and "guess" not in progress.read()["predictions"].get("03.p", {})
    button.click()
    assert progress.read()["predictions"]["03.p"]["guess"] == 5.0
    slider.value = 7.5
    assert progress.read()["predictions"]["03.p"]["guess"] == 7.5
    assert only(ipywidgets.FloatSlider, predictions.prediction_control("03.p", (0, 10))).value == 7.5


def test_help_buttons_count_hints_and_note_the_solution():
    box = learner.help_buttons(get(ID))
    next_hint, show_solution = [w for w in widgets_in(box) if isinstance(w, ipywidgets.Button)]
    assert (next_hint.description, show_solution.description) == ("Next hint", "Show solution")
    next_hint.click()
    next_hint.click()
    assert entry()["hints"] == 2 and not entry()["solution_shown"]
    show_solution.click()
    assert entry()["solution_shown"]


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    """A notebook with every exercise, nothing solved, run from top to bottom."""
    folder = tmp_path_factory.mktemp("notebook")
    cells = ["from labkit.workshop.learner import *", "predict('03.p', 'How much?', (0, 1))"]
    for exercise in of_notebook("03"):
        cells += exercise.cells
    cells += ["reveal('03.p', 0.5)", "hint('03.ood_hands')", "def completion_mask(*args):\n    return 1 / 0"]
    cells += [f"check({ID!r}, completion_mask)", "progress('03')"]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LABKIT_PROGRESS", str(folder / "progress.json"))
        NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(folder))
    return notebook


# A kernel that imports torch takes its time.
@pytest.mark.slow
def test_run_all_with_nothing_solved_runs_through(executed):
    outputs = [o for cell in executed.cells for o in cell.outputs]
    assert not [o for o in outputs if o.output_type in ("error", "stream")]
    texts = [o["data"].get("text/markdown", "") for o in outputs if "data" in o]
    assert sum("Not attempted yet" in text for text in texts) == 8
    assert "**0 of 8 solved, 1 hint used**" in texts[-1]
    assert "open, 1 attempt" in texts[-1]


@pytest.mark.slow
def test_in_a_notebook_text_is_rich_and_reads_without_widgets(executed):
    show_cell = next(cell for cell in executed.cells if cell.source == get(ID).cells[0])
    task, buttons = show_cell.outputs
    assert "<details>" in task["data"]["text/markdown"] and "<details>" not in task["data"]["text/plain"]
    assert "application/vnd.jupyter.widget-view+json" in buttons["data"]
    assert buttons["data"]["text/plain"].startswith("Stuck?")
    assert "between 0 and 1" in executed.cells[1].outputs[-1]["data"]["text/plain"]


@pytest.mark.slow
def test_in_a_notebook_an_error_names_the_line_of_the_cell(executed):
    last = [cell for cell in executed.cells if cell.source == f"check({ID!r}, completion_mask)"][-1]
    (card,) = last.outputs
    assert (
        "`ZeroDivisionError: division by zero`, in line 2 of its cell, `return 1 / 0`"
        in card["data"]["text/markdown"]
    )
