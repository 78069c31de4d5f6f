"""Two runs over the same questions, as frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from render_agent.api.display import page
from render_agent.api.frames import changed_frame, differences_frame
from render_agent.errors import UsageError
from render_agent.score.comparison import Side, compare, incomparable

if TYPE_CHECKING:
    import pandas

Run = tuple[str, Mapping[str, Any], str]
"""The name of a run, its results, and the subset of the questions that it was to answer."""


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """How run b differs from run a; it shows itself in a notebook.

    found: all figures, as `render-agent compare --json` prints them. warnings: why the runs are not
    comparable, where they were compared all the same.

    >>> import render_agent
    >>> options = {"benchmark": "rooms", "engine": "scripted", "limit": 2, "output": "runs", "max_turns": 2}
    >>> a, b = render_agent.run(**options, model="random"), render_agent.run(**options, model="oracle")
    >>> a.compare(b).differences.loc["micro", "b_percent"]
    np.float64(100.0)
    """

    found: Mapping[str, Any]
    warnings: tuple[str, ...] = ()

    @property
    def differences(self) -> pandas.DataFrame:
        """A row a mean, task or type: both scores, b minus a with its 95 % interval and p, in percent."""
        return differences_frame(self.found)

    @property
    def changed(self) -> pandas.DataFrame:
        """A row a question that is right in one run and wrong in the other."""
        return changed_frame(self.found)

    def __repr__(self) -> str:
        found = self.found
        return (
            f"<comparison of b {found['b']} with a {found['a']}: {found['n']} questions,"
            f" {len(found['changed'])} changed sides>"
        )

    def _repr_html_(self) -> str:
        return page("comparison.html", comparison=self)


def compared(a: Run, b: Run, *, anyway: bool) -> Comparison:
    """Return how b differs from a. UsageError where they are not comparable."""
    one, two = (Side(name, results, {"subset": subset}) for name, results, subset in (a, b))
    reasons = incomparable(one, two)
    if reasons and not anyway:
        raise UsageError(
            f"{one.name} and {two.name} are not comparable: {'; '.join(reasons)}; give anyway=True to"
            " compare the questions that both have scored"
        )
    found = compare(one, two)
    if not found["n"]:
        raise UsageError(f"{one.name} and {two.name} have no scored question in common")
    return Comparison(found, tuple(reasons))
