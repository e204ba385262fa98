"""No two labels of an axis touch, in a panel or between panels."""

from itertools import pairwise

import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter

from guidebench.reports.rendering import figures, ticks


def boxes(figure: Figure) -> list[tuple[float, float]]:
    """Return the left and right edge of every label below a line of panels, from left to right."""
    extents = [text.get_window_extent() for axes in figure.axes for _, text in ticks._labels(axes)]
    return sorted((box.x0, box.x1) for box in extents)


@pytest.mark.parametrize("panels", [1, 2, 3])
def test_labels_that_would_touch_are_thinned_and_panels_keep_their_distance(panels: int) -> None:
    with figures.canvas(1.2) as figure:
        for axes in figure.subplots(1, panels, sharey=True, squeeze=False).flat:
            axes.set_xlim(0, 1_500_000)
            axes.xaxis.set_major_locator(FixedLocator(range(0, 1_500_001, 150_000)))
            axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        canvas = FigureCanvasAgg(figure)
        canvas.draw()
        before = boxes(figure)
        assert any(second[0] < first[1] for first, second in pairwise(before))
        assert ticks.separate(figure)
        canvas.draw()
        after = boxes(figure)
        assert all(second[0] > first[1] for first, second in pairwise(after)) and len(after) >= panels
        assert not ticks.separate(figure), "drawn again, nothing is left to do"


def test_labels_with_room_stay_as_they_are() -> None:
    with figures.canvas(1.2) as figure:
        axes = figure.add_subplot()
        axes.set_xlim(0, 4)
        FigureCanvasAgg(figure).draw()
        assert not ticks.separate(figure) and len(ticks._labels(axes)) >= 3
