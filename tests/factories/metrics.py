"""The default metrics by question type and answer form."""

from render_agent import registry
from render_agent.tasks.question_types import FORM_METRICS, TYPE_METRICS

VSI_BENCH = {kind: registry.load("metric", name)() for kind, name in TYPE_METRICS.items()}
BY_FORM = {form: registry.load("metric", name)() for form, name in FORM_METRICS.items()}
