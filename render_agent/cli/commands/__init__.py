"""The commands, except those that start runs (`cli/main.py`)."""

COMMANDS = {  # name -> command, in the order of --help
    "run": "render_agent.cli.main:run_command",
    "ask": "render_agent.cli.main:ask_command",
    "ls": "render_agent.cli.commands.ls:ls_command",
    "show": "render_agent.cli.commands.show:show_command",
    "report": "render_agent.cli.commands.report:report_command",
    "bundle": "render_agent.cli.commands.bundle:bundle_command",
    "boxes": "render_agent.cli.commands.boxes:boxes_command",
    "view": "render_agent.cli.commands.report:view_command",
    "diagnose": "render_agent.cli.commands.diagnose:diagnose_command",
    "compare": "render_agent.cli.commands.compare:compare_command",
    "rescore": "render_agent.cli.commands.rescore:rescore_command",
    "merge": "render_agent.cli.commands.merge:merge_command",
    "export": "render_agent.cli.commands.export:export_command",
    "sweep": "render_agent.cli.commands.sweep.command:sweep_command",
    "doctor": "render_agent.cli.commands.doctor.command:doctor_command",
    "play": "render_agent.cli.commands.play:play_command",
    "mcp": "render_agent.cli.commands.mcp:mcp_command",
    "score": "render_agent.cli.commands.score:score_command",
    "judge": "render_agent.cli.commands.judge:judge_command",
}
