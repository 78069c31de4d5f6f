"""Surface that is counted by view policies: patches, without those near the ceiling."""

import numpy as np
import pytest

from render_agent.visibility.visible_surface import (
    CEILING_METRES,
    PATCH_METRES,
    STOREY_METRES,
    Surroundings,
    patches,
)

CEILING = 2.5


def count(*heights, ceiling=CEILING):
    points = np.array([(0.5, 0.5, height) for height in heights])
    place = Surroundings((0, 0, 1.5), points, np.ones(len(points)))
    numbers, number = patches([place], ceiling)
    return (numbers[0] < number).tolist(), number


@pytest.mark.parametrize(
    ("height", "is_counted"),
    [
        (0.0, True),
        (CEILING - CEILING_METRES - 0.01, True),
        (CEILING - CEILING_METRES + 0.01, False),
        (CEILING, False),
        (CEILING + STOREY_METRES - 0.01, False),
        (CEILING + STOREY_METRES + 0.01, True),
    ],
)
def test_only_surface_near_the_ceiling_is_not_counted(height, is_counted):
    assert count(height) == ([is_counted], int(is_counted))


def test_points_share_a_patch_exactly_if_they_are_in_the_same_cube():
    low, other = 0.1 * PATCH_METRES, 1.1 * PATCH_METRES
    assert count(low, low + 0.5 * PATCH_METRES, other, CEILING) == ([True, True, True, False], 2)
