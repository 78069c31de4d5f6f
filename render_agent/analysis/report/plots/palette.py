"""The colours of plots: those of Okabe and Ito, told apart by all kinds of sight.

Each has a name that the pages' style knows too, as `--NAME`, with another value in the dark.
"""

from __future__ import annotations

from render_agent.analysis.diagnosis.model import Cause

INK, SOFT, LINE, PAPER = "#1a1f24", "#545c64", "#d9dde1", "#ffffff"
BLUE, SKY, ORANGE, GREEN = "#0072b2", "#56b4e9", "#e69f00", "#009e73"
VERMILLION, PURPLE, GREY, PALE = "#d55e00", "#b8578f", "#7f878f", "#c3c9cf"

NAMES = {
    INK: "ink",
    SOFT: "soft",
    LINE: "line",
    PAPER: "paper",
    BLUE: "blue",
    SKY: "sky",
    ORANGE: "orange",
    GREEN: "green",
    VERMILLION: "vermillion",
    PURPLE: "purple",
    GREY: "grey",
    PALE: "pale",
}
"""The name of every colour that a plot may use."""

RIGHT, WRONG, OPEN = BLUE, VERMILLION, PALE

CAUSES = {
    Cause.RIGHT: BLUE,
    Cause.MISJUDGED: VERMILLION,
    Cause.NEVER_LOOKED: ORANGE,
    Cause.STOPPED_EARLY: PURPLE,
    Cause.NO_ANSWER: GREY,
    Cause.ERROR: INK,
    Cause.UNKNOWN: SKY,
    Cause.OPEN: PALE,
}
"""The colour of every cause, in the order in which they are stacked."""
