"""What a run is asked to do: every option once, parsed into specs, and the objects that options name.

It imports errors, texts, the bundled models and the registry, and loads by name whatever the registry knows. Start with
`run.py`: RunConfig consists of the specs of the other modules; `option.py` says how an option is declared.
"""

from render_agent.config.option import AUTO
from render_agent.config.run import CHANGEABLE, OPTIONS, RunConfig, fingerprint_of, fixed_options

__all__ = ["AUTO", "CHANGEABLE", "OPTIONS", "RunConfig", "fingerprint_of", "fixed_options"]
