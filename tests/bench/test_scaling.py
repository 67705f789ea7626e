"""What a step costs, at the smallest size."""

from itertools import combinations

import pandas as pd
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from labkit.bench import charts, scaling
from labkit.bench.scaling import Shape, measure_critics, time_shape


def test_a_shape_is_timed_in_its_parts():
    times = time_shape(Shape(width=16, length=3, group_size=2), steps=2)
    assert times["seconds"] > 0 and times["sampling"] > 0 and times["training"] > 0
    assert 0 < times["share_of_matmul_rate"] < 1


def test_a_critic_of_its_own_doubles_the_parameters():
    table = measure_critics(1, **scaling.SMALL).set_index("arm")
    policy = table.loc["grpo", "parameters"]
    assert table.loc["ppo", "parameters"] == policy + 128 + 1
    assert table.loc["ppo-separate", "parameters"] == 2 * policy + 128 + 1
    assert (table["peak_mib"] > 100).all()


def test_each_shape_changes_one_thing():
    usual = Shape()
    for name, value, shape in scaling.shapes():
        changed = {k: v for k, v in vars(shape).items() if v != vars(usual)[k]}
        assert set(changed.values()) <= {value}, name
        assert len(changed) <= 1


def test_charts_show_what_was_measured():
    shapes = pd.DataFrame(
        [
            {"varies": "group size", "value": v, "sampling": 1.0, "training": v, "share_of_matmul_rate": 0.5}
            for v in (2.0, 4.0)
        ]
    )
    (ax,) = charts.step_time(shapes).axes
    assert ax.lines[1].get_ydata().tolist() == [2.0, 4.0]
    assert [t.get_text() for t in ax.texts] == ["50%", "50%"]


def test_no_share_is_written_over_another_or_over_the_axis():
    figure = charts.step_time(charts.measured("shapes_measured"))
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for ax in figure.axes:
        boxes = [text.get_window_extent(canvas.get_renderer()) for text in ax.texts]
        assert len(boxes) >= 3
        assert not any(one.overlaps(other) for one, other in combinations(boxes, 2))
        assert all(box.x0 > ax.bbox.x0 and box.y1 < ax.bbox.y1 for box in boxes)


def test_missing_times_name_the_command(monkeypatch, tmp_path):
    monkeypatch.setattr(charts, "repo_root", lambda: tmp_path)
    with pytest.raises(FileNotFoundError, match="run speed --profile full"):
        charts.measured("nothing")
