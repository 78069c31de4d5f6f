"""`--engine openai`: chat completions, which most servers speak, or OpenAI's Responses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from render_agent.engines.engine_options import engine_options
from render_agent.engines.families.model_families import family_named
from render_agent.engines.families.thinking import Thinking
from render_agent.engines.openai.chat_completions import ChatCompletions, OpenAIApi, OpenAIOptions
from render_agent.engines.openai.responses import Responses
from render_agent.engines.remote.endpoints import HOSTED_HOST, find_endpoints
from render_agent.engines.remote.make_remote import RemoteMaker, read_remote_options
from render_agent.options import DEFAULT_MODEL, RunConfig

REASONING = Thinking("reasoning_effort", "medium", "none")  # for OpenAI's own API


class OpenAI(RemoteMaker):
    """An OpenAI-compatible server, or OpenAI's own API."""

    default_model = DEFAULT_MODEL

    def open_api(self, config: RunConfig) -> OpenAIApi:
        """Return chat completions or Responses. Raises SetupError also if there is no server."""
        options = read_remote_options(config, "openai", OpenAIOptions)
        model = self.model_name(config)
        is_hosted = any(entry.host == HOSTED_HOST for entry in find_endpoints(config.base_url))
        is_reasoning = is_hosted or options.api == "responses"
        thinking = REASONING if is_reasoning else family_named(model).thinking
        template = options.extra_body.get("chat_template_kwargs")
        template_kwargs = template if isinstance(template, Mapping) else {}
        options_given = engine_options(config.engine_option) if is_reasoning else template_kwargs
        arguments = thinking.arguments(config.thinking, options_given)
        if is_reasoning:
            options = replace(options, reasoning_effort=arguments.get("reasoning_effort"))
        elif arguments:
            options = replace(
                options, extra_body={**options.extra_body, "chat_template_kwargs": arguments}
            )
        return (Responses if options.api == "responses" else ChatCompletions)(model, options)


OPENAI = OpenAI()
