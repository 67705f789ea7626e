"""A verify cell shows both sides, and stops a notebook in which they differ."""

import pytest
import torch

from labkit.workshop.verify import verify


def test_both_sides_are_printed(capsys):
    verify("02.1", by_hand=[[0.25, -1], [0, 3]], labkit=torch.tensor([[0.25, -1.0], [0.0, 3.0]]))
    verify("02.2", by_hand=1 / 3, labkit=torch.tensor(0.33333, requires_grad=True))
    first, second, *_ = lines = capsys.readouterr().out.splitlines()
    assert first == "(02.1)  by hand [[0.25, -1], [0, 3]]"
    assert second == "         labkit  [[0.25, -1], [0, 3]]  ✓"
    assert lines[2] == "(02.2)  by hand 0.3333"


@pytest.mark.parametrize(
    ("by_hand", "ours"),
    [(1.0, 1.01), ([1.0, 2.0], [2.0, 1.0]), ([1.0], 1.0), ([0.0], torch.tensor([float("nan")]))],
)
def test_sides_that_differ_stop_the_notebook(by_hand, ours):
    with pytest.raises(ValueError, match=r"\(02\.3\) does not hold"):
        verify("02.3", by_hand, ours)
