"""Colours of plots: the colour-blind-safe palette of Okabe and Ito."""

from __future__ import annotations

from render_agent.report.diagnosis.model import Cause

INK, SOFT, LINE, PAPER = "#1a1f24", "#545c64", "#d9dde1", "#ffffff"
BLUE, SKY, ORANGE, GREEN = "#0072b2", "#56b4e9", "#e69f00", "#009e73"
VERMILLION, PURPLE, GREY, PALE = "#d55e00", "#b8578f", "#7f878f", "#c3c9cf"

CYCLE = (BLUE, VERMILLION, GREEN, PURPLE, ORANGE, SKY, GREY)

# colour of every cause, in stacking order
CAUSES = {
    Cause.RIGHT: BLUE,
    Cause.MISJUDGED: VERMILLION,
    Cause.NEVER_LOOKED: ORANGE,
    Cause.STOPPED_EARLY: PURPLE,
    Cause.PERCEPTION: "#8c4a1f",
    Cause.MEMORY: "#f0c39a",
    Cause.REASONING: GREEN,
    Cause.FORM: "#f0e442",
    Cause.NO_ANSWER: GREY,
    Cause.ERROR: INK,
    Cause.UNKNOWN: SKY,
    Cause.OPEN: PALE,
}
