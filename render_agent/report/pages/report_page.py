"""Base class of the pages about a whole run that the index page links to."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from render_agent.report.diagnosis.model import Diagnosis
from render_agent.runs.read import RunData


class ReportPage(ABC):
    """A page about a whole run. Its file is `NAME.html` in the folder of the report.

    Attributes:
        title: Text of the links to the page.
        description: What the index page says before the link.
        template: Jinja template that extends `base.html`.
    """

    title: ClassVar[str]
    description: ClassVar[str]
    template: ClassVar[Path]

    @abstractmethod
    def variables(
        self, run: RunData, diagnoses: Mapping[str, Diagnosis], folder: Path
    ) -> Mapping[str, Any] | None:
        """Return the variables of the template; None if there is no page for this run.

        Args:
            run: A finished or running run.
            diagnoses: Diagnoses by question id; empty with `--no-diagnosis`.
            folder: The folder of the report, for plots and other files that the page shows.
        """
