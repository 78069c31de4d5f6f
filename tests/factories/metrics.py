"""The default metrics by question type and answer form."""

from render_agent import registry
from render_agent.tasks.question_types import BUILT_IN, FORM_METRICS

VSI_BENCH = {kind: registry.load("metric", record.metric)() for kind, record in BUILT_IN.items()}
BY_FORM = {form: registry.load("metric", name)() for form, name in FORM_METRICS.items()}
