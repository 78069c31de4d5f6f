"""Every error that this package raises on purpose.

RenderAgentError
├── SetupError           something is missing or wrong before the first question is asked (exit 1)
│   ├── UsageError       the command line contradicts itself (exit 2)
│   ├── QuestionsError   a question file cannot be read as questions
│   └── RunLogError      a run folder is locked, edited, full or not a run
├── SceneError           one scan cannot be read; the questions of that scan fail, the others go on
├── RenderError          one view cannot be drawn; its question fails, the others go on
└── EngineError          the engine is gone; the run stops and can be continued

A reply that cannot be read is none of these: it is data (`render_agent.action.Malformed`).
Each message is one sentence that says what is wrong, where, and what to do about it.
"""


class RenderAgentError(Exception):
    """The root of all errors that a user can be told in one sentence.

    >>> import render_agent
    >>> try:
    ...     render_agent.load_run("no-such-run")
    ... except render_agent.RenderAgentError as error:
    ...     str(error)
    "there is no run 'no-such-run', neither in experiment_logs nor as a path"
    """


class SetupError(RenderAgentError):
    """Something that the run needs is missing or wrong; raised before any model is loaded."""


class UsageError(SetupError):
    """Options that contradict each other."""


class QuestionsError(SetupError):
    """A question file that cannot be read as questions."""


class RunLogError(SetupError):
    """A run folder that is locked, edited, full, or no run at all."""


class SceneError(RenderAgentError):
    """A scan that cannot be read as a scene."""


class RenderError(RenderAgentError):
    """A view that cannot be drawn."""


class EngineError(RenderAgentError):
    """An engine that cannot answer any more."""
