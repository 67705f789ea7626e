import pytest

from labkit.envs.points24.grading import Outcome, Verdict
from labkit.envs.points24.metrics import reading_accuracy
from labkit.envs.points24.rules import FACES_AS_RANK, FACES_AS_TEN

HANDS = [(11, 1, 2, 3), (4, 5, 6, 7), (10, 12, 2, 2)]


def test_reading_is_counted_apart_from_solving():
    verdicts = [
        Verdict(Outcome.WRONG_VALUE, (10, 1, 2, 3)),
        Verdict(Outcome.MISREAD_CARDS, (5, 4, 6, 7)),
        Verdict(Outcome.NO_ANSWER),
    ]
    assert reading_accuracy(verdicts, HANDS, FACES_AS_TEN) == pytest.approx(1 / 3)
    assert reading_accuracy(verdicts, HANDS, FACES_AS_RANK) == 0


def test_a_verdict_too_few_is_an_error():
    with pytest.raises(ValueError):
        reading_accuracy([Verdict(Outcome.NO_ANSWER)], HANDS, FACES_AS_TEN)
