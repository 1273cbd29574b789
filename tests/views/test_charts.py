"""Charts as data: where points lie, what is written, and what the text says of them."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from drawn import check

from jevlaya_lab.system_one.errors import InvalidInput
from jevlaya_lab.views.charts import bar_chart, heat_chart, line_chart, stack
from jevlaya_lab.views.layout import Area, Label
from jevlaya_lab.views.picture import Picture

POINTS = pd.DataFrame(
    {
        "n": [1, 10, 100, 1, 10, 100],
        "model": ["a"] * 3 + ["b"] * 3,
        "right": [0.5, 0.6, 0.7, 0.4, 0.8, 0.6],
        "low": [0.4, 0.5, 0.6, 0.3, 0.7, 0.5],
        "high": [0.6, 0.7, 0.8, 0.5, 0.9, 0.7],
    }
)


def lines_of(frame=POINTS, **options):
    options = {"x": "n", "y": "right", "by": "model", "title": "Right answers", **options}
    return line_chart(frame, **options)


def data_lines(layout):
    return [
        line
        for i in range(7)
        for line in layout.lines(f"series-{i}")
        if line.label and line.label != "band"
    ]


# --- lines -----------------------------------------------------------------------------------


def test_lines_differ_in_colour_dash_and_mark():
    layout = lines_of(low="low", high="high")
    check(layout)
    first, second = data_lines(layout)
    assert (first.label, second.label) == ("a", "b")
    assert first.role != second.role
    assert first.dash != second.dash
    assert {m.shape for m in layout.marks("series-0")} == {0}
    assert {m.shape for m in layout.marks("series-1")} == {1}
    assert {"a", "b"} <= set(layout.texts)  # the legend
    assert [p.label for p in layout.pieces if isinstance(p, Area)] == ["a", "b"]


def test_higher_values_lie_higher_and_equal_ratios_are_equal_distances():
    (line, _) = data_lines(lines_of(log_x=True))
    (x0, y0), (x1, y1), (x2, y2) = line.points
    assert y0 > y1 > y2
    assert x1 - x0 == pytest.approx(x2 - x1)
    (line, _) = data_lines(lines_of())
    (x0, _), (x1, _), (x2, _) = line.points
    assert (x2 - x0) / (x1 - x0) == pytest.approx(99 / 9)


def test_a_missing_value_breaks_the_line():
    frame = pd.DataFrame({"x": range(5), "y": [1.0, 2.0, None, 3.0, 4.0]})
    layout = line_chart(frame, x="x", y="y", title="t")
    assert [len(line.points) for line in layout.lines("series-0")] == [2, 2]
    assert len(layout.marks("series-0")) == 4
    assert "4 points (1 missing), y 1 at x 0" in layout.alt


def test_categories_stand_in_their_own_order():
    kind = pd.CategoricalDtype(["small", "middle", "large", "never"], ordered=True)
    frame = pd.DataFrame({"x": pd.Series(["large", "small", "middle"], dtype=kind), "y": [3, 1, 2]})
    layout = line_chart(frame, x="x", y="y", title="t")
    labels = {p.text: p.x for p in layout.pieces if isinstance(p, Label)}
    assert labels["small"] < labels["middle"] < labels["large"]
    assert "never" not in labels
    (line,) = layout.lines("series-0")
    assert [y for _, y in line.points] == sorted((y for _, y in line.points), reverse=True)


def test_what_has_no_place_is_counted_in_words():
    frame = pd.DataFrame({"x": [0, -1, 1, 2, None], "y": [1, 2, math.inf, 3, 4]})
    layout = line_chart(frame, x="x", y="y", log_x=True, title="t")
    check(layout)
    for said in (" ".join(layout.texts), layout.alt):
        assert "1 infinite values of y are not drawn" in said
        assert "2 values of x that are not above zero" in said
        assert "3 rows without x are not drawn" in said


def test_the_text_names_series_and_their_ends():
    alt = lines_of().alt
    assert alt.startswith("Right answers. Line chart: model a: 3 points, right 0.5 at n 1, 0.7 at")
    assert "model b: 3 points, right 0.4 at n 1, 0.6 at 100, lowest 0.4 at 1, highest 0.8 at" in alt
    assert lines_of(alt="mine").alt == "mine"


def test_many_points_have_few_marks_and_many_lines_are_named():
    frame = pd.DataFrame({"x": np.arange(5000), "y": np.arange(5000.0)})
    layout = line_chart(frame, x="x", y="y", title="t")
    assert len(layout.marks("series-0")) <= 41
    wide = pd.DataFrame(
        {"x": [0, 1] * 20, "y": range(40), "by": [f"line {i // 2}" for i in range(40)]}
    )
    layout = line_chart(wide, x="x", y="y", by="by", title="t")
    check(layout)
    looks = {(line.role, line.dash % 7, line.label) for line in data_lines(layout)}
    assert len(looks) == 20
    assert "and 14 more lines" in layout.alt


# --- bars ------------------------------------------------------------------------------------


def test_bars_begin_at_zero_and_bear_their_values():
    frame = pd.DataFrame({"x": list("abc"), "y": [2.0, -1.0, 4.0]})
    for horizontal in (False, True):
        layout = bar_chart(frame, x="x", y="y", horizontal=horizontal, title="t")
        check(layout)
        bars = {bar.label[0]: bar for bar in layout.rects("series-0")}
        assert {"2", "-1", "4"} <= set(layout.texts)
        if horizontal:
            assert bars["c"].width == pytest.approx(2 * bars["a"].width)
            assert bars["b"].x + bars["b"].width == pytest.approx(bars["a"].x)
        else:
            assert bars["c"].height == pytest.approx(2 * bars["a"].height)
            assert bars["a"].y + bars["a"].height == pytest.approx(bars["b"].y)


def test_groups_differ_in_hatch_and_a_missing_value_is_a_dash():
    frame = pd.DataFrame({"x": list("aabb"), "by": list("pqpq"), "y": [1, 2, None, 4]})
    layout = bar_chart(frame, x="x", y="y", by="by", title="t")
    check(layout)
    assert {bar.hatch for bar in layout.rects("series-0")} == {0}
    assert {bar.hatch for bar in layout.rects("series-1")} == {1}
    assert "–" in layout.texts
    assert "by p: y by x: a 1; lowest" in layout.alt


def test_values_that_do_not_fit_are_not_written():
    frame = pd.DataFrame({"x": range(300), "y": np.arange(300) + 0.123})
    layout = bar_chart(frame, x="x", y="y", title="t")
    check(layout)
    assert len(layout.rects("series-0")) == 300
    assert "5.12" not in layout.texts


# --- fields ----------------------------------------------------------------------------------


def test_fields_are_darker_for_more_and_have_their_number():
    frame = pd.DataFrame({"x": list("aabb"), "y": list("pqpq"), "v": [0, 5, None, 10]})
    layout = heat_chart(frame, x="x", y="y", value="v", title="t")
    check(layout)
    shades = {f.label: f.shade for f in layout.rects("heat") if f.label}
    assert shades == {"0": 0.0, "5": 0.5, "10": 1.0}
    assert {"0", "5", "10", "–"} <= set(layout.texts)
    assert "lowest v 0 at x a, y p; highest v 10 at x b, y q" in layout.alt


def test_numbers_too_wide_for_their_field_are_left_out_and_that_is_said():
    frame = pd.DataFrame([(i, j, 1000 * i + j) for i in range(60) for j in range(40)])
    frame.columns = ["x", "y", "v"]
    layout = heat_chart(frame, x="x", y="y", value="v", title="t")
    check(layout)
    assert "do not fit into the fields" in layout.alt


# --- all of them -----------------------------------------------------------------------------


def test_nothing_to_draw_says_so():
    none = POINTS.iloc[:0]
    missing = POINTS.assign(right=None)
    for frame in (none, missing):
        for layout in (
            lines_of(frame, low="low", high="high", log_x=True, log_y=True),
            bar_chart(frame, x="n", y="right", by="model", title="t"),
            bar_chart(frame, x="n", y="right", by="model", horizontal=True, title="t"),
            heat_chart(frame, x="n", y="model", value="right", title="t"),
        ):
            check(layout)
            assert "no data" in layout.texts
            assert Picture(layout).to_png().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("draw", "said"),
    [
        (lambda: lines_of(y="wrong"), r"0 columns 'wrong'; its columns are \['n', 'model'"),
        (lambda: lines_of(y="model"), "column 'model' holds something that is no number"),
        (lambda: lines_of([1]), "drawn from a DataFrame, got a list"),
        (lambda: lines_of(low="low"), "give both low= and high="),
        (lambda: lines_of(x="model", by=None, log_x=True), "log_x=True has no meaning"),
        (lambda: bar_chart(POINTS, x="model", y="n", title="t"), "the same bar, model='a'"),
        (
            lambda: heat_chart(pd.concat([POINTS] * 2), x="n", y="model", value="right", title="t"),
            r"the same field, n='1', model='a'.*groupby",
        ),
        (lambda: stack(POINTS, title="t"), "stack takes layouts, got a DataFrame"),
    ],
)
def test_what_cannot_be_drawn_is_refused_by_name(draw, said):
    with pytest.raises(InvalidInput, match=said):
        draw()


def test_texts_of_any_kind_stay_inside():
    long = "a very long name " * 20
    frame = pd.DataFrame(
        {"x": [long, "日本語", "$x^2$", "<b>", "\x00\n", "\ud800"], "y": [1, 2, 3, 1e12, 1e-12, 5]},
        dtype=object,
    )
    for layout in (
        line_chart(frame, x="x", y="y", title=long, subtitle=long * 5, note=long * 5),
        bar_chart(frame, x="x", y="y", by="x", title=long, x_label=long, y_label=long),
        bar_chart(frame, x="x", y="y", horizontal=True, title=long),
        heat_chart(frame, x="x", y="x", value="y", title=long, x_label=long, y_label=long),
    ):
        check(layout)
        picture = Picture(layout)
        assert picture.to_png().startswith(b"\x89PNG")
        picture.alt.encode("utf-8")
        picture.to_html().encode("utf-8")


def test_a_stack_keeps_its_panels_apart():
    panels = [lines_of(), bar_chart(POINTS.head(3), x="n", y="right", title="Bars")]
    layout = stack(*panels, title="Both")
    check(layout)
    assert layout.height > sum(panel.height for panel in panels)
    assert layout.alt.startswith("Both. 2 pictures, one under the other. Right answers.")
    assert [table.title for table in layout.tables] == ["Right answers", "Bars"]
    assert len(layout.texts) == 1 + sum(len(panel.texts) for panel in panels)
    check(stack(title="None"))
