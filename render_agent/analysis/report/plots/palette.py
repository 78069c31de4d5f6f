"""The colours of plots: those of Okabe and Ito, which colour-blind readers can tell apart."""

from __future__ import annotations

from render_agent.analysis.diagnosis.model import Cause, Failure

INK, SOFT, LINE, PAPER = "#1a1f24", "#545c64", "#d9dde1", "#ffffff"
BLUE, SKY, ORANGE, GREEN = "#0072b2", "#56b4e9", "#e69f00", "#009e73"
VERMILLION, PURPLE, GREY, PALE = "#d55e00", "#b8578f", "#7f878f", "#c3c9cf"

CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY)

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

FAILURES = {
    Failure.RIGHT: BLUE,
    Failure.NEVER_SEEN: ORANGE,
    Failure.PERCEPTION: VERMILLION,
    Failure.MEMORY: PURPLE,
    Failure.REASONING: GREEN,
    Failure.NOT_READABLE: GREY,
    Failure.UNKNOWN: SKY,
}
"""The colour of what broke first, in the order in which they are stacked."""
