"""The requests of a run as actually sent: temperature, thinking, token limit and reply protocol."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from render_agent.dialogue.events import BATCH_JOB
from render_agent.engines.make_engine import engine_traits
from render_agent.options import AUTO, OPTIONS, RunConfig, flag_of
from render_agent.runs.build import Parts
from render_agent.score.tables import dollars
from render_agent.util.display import count_noun

GREEDY = "0 (greedy)"

# options that `request_facts` describes
FACT_OPTIONS = (
    "temperature",
    "seed",
    "thinking",
    "thinking_budget",
    "max_new_tokens",
    "reply_protocol",
    "history",
    "feedback",
    "reproducible",
    "sight_check",
)


def option_label(name: str) -> str:
    """Return how pages and tables name an option, or a file of a kind, such as "policy FILE.py", that differs."""
    if name in OPTIONS:
        return flag_of(name)
    return name if " " in name else "--" + name.replace("_", "-")  # an option of another version


def option_value(name: str, value: Any) -> str:
    """Format the value of an option in command-line syntax."""
    if value in (None, (), [], ""):
        return "not set"
    separator = OPTIONS[name].metadata.get("separator", ",") if name in OPTIONS else ","
    return separator.join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def request_facts(config: RunConfig, results: Mapping[str, Any]) -> dict[str, str]:
    """Return the facts that describe every request of a run, by name, without options that its engine does not use.

    Request fields that were adapted to a server replace the value of their option.
    """
    engine = engine_traits(config.engine)
    adaptations: dict[str, Any] = dict(results.get("adapted", {}))

    def as_sent(name: str, value: str) -> str:
        change = adaptations.pop(name, None)
        if change is None:
            return value
        return f"{change['how']} in {count_noun(change['turns'], 'turn')}; option: {value}"

    temperature = f"{config.temperature:g}" if config.temperature else GREEDY
    facts = {}
    if not engine.single_sample:  # a person or an MCP client samples as it likes
        facts = {
            "Temperature": as_sent("temperature", temperature),
            "Seed": as_sent("seed", str(config.seed)),
            "Thinking": _thinking(config),
            "New tokens": f"at most {config.max_new_tokens:,} per reply",
        }
    facts |= {
        "Reply protocol": config.reply_protocol,
        "Images in the prompt": _history(config.history),
        "Feedback": config.feedback,
    }
    if engine.can_reproduce or "reproducible" in results:
        is_exact = results.get("reproducible", config.reproducible == "on")
        where = "on this type of device, with these versions"
        if engine.uses_server:
            where = "according to the server"
        facts["Reproducible"] = f"bit-for-bit {where}" if is_exact else "not bit-for-bit"
    if config.batch_jobs:
        events = results.get("totals", {}).get("events", {})
        facts["Batch jobs"] = count_noun(events.get(BATCH_JOB, 0), "reply", "replies")
    other_adaptations = "; ".join(
        f"{name} {how['how']} in {count_noun(how['turns'], 'turn')}"
        for name, how in adaptations.items()
    )
    if sight := results.get("sight_check"):
        facts["Sight check"] = sight
    return facts | ({"Adapted to the server": other_adaptations} if other_adaptations else {})


def cost_fact(parts: Parts, results: Mapping[str, Any]) -> dict[str, str]:
    """Return the cost of a run by name; empty if its model is local and has no price."""
    price, usd = parts.price, results.get("cost_usd")
    if price is None:
        is_paid = parts.engine.uses_server and parts.engine.uses_model
        return {"Cost": f"unknown (no price for {parts.model_name})"} if is_paid else {}
    if usd is None:
        return {"Cost": "unknown (the server reports no tokens)"}
    return {"Cost": f"{dollars(usd)}{uncounted_judges(parts)}; prices: {price.describe()}"}


def uncounted_judges(parts: Parts) -> str:
    """Return the end of a sentence about a cost that does not include the judges; empty if it does."""
    return ", without judges" if parts.judges and not parts.billing.includes_verifiers else ""


def _history(history: str) -> str:
    turns = "turn" if history == "1" else f"{history} turns"
    return history if history == "all" else f"those of the last {turns}"


def _thinking(config: RunConfig) -> str:
    words = "model's default" if config.thinking == AUTO else config.thinking
    budget = config.thinking_budget
    return words if budget is None else f"{words}, at most {budget:,} tokens"


def facts_line(facts: Mapping[str, str]) -> str:
    """Join facts in one line for the terminal."""
    return ", ".join(f"{name[:1].lower()}{name[1:]} {value}" for name, value in facts.items())
