"""`python -m render_agent` is `render-agent`."""

from render_agent.cli.main import main

if __name__ == "__main__":
    main()
