"""`python -m render_agent` is `render-agent`: signals are handled before anything large is imported."""

from __future__ import annotations

import sys
from typing import NoReturn

try:
    from render_agent.util.interrupts import Terminated, exit_code, install

    install()
except KeyboardInterrupt:
    sys.exit(130)


def main() -> NoReturn:
    """Run the command line and exit with its code."""
    try:
        from render_agent.cli.main import main as command_line
    except (KeyboardInterrupt, Terminated) as stop:
        sys.exit(exit_code(stop))
    command_line()


if __name__ == "__main__":
    main()
