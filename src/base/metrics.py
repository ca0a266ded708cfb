"""Prometheus metrics, in a separate registry for each ``Metrics``."""

from contextlib import AbstractContextManager
from functools import partial
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

# Seconds: from milliseconds of a statement to minutes of a model call.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """Counters and gauges of the process. Label values are few and fixed: no user ids, no text."""

    def __init__(self) -> None:
        """Register every metric in a new registry."""
        self.registry = CollectorRegistry()
        counter = partial(Counter, registry=self.registry)
        gauge = partial(Gauge, registry=self.registry)
        histogram = partial(Histogram, registry=self.registry, buckets=BUCKETS)
        self.updates = counter("pomni_updates_total", "Updates stored, by kind", ["kind"])
        self.turns = counter("pomni_turns_total", "Turns, by how they ended", ["outcome"])
        self.stages = histogram("pomni_stage_seconds", "Duration of a turn's stages", ["stage"])
        self.errors = counter("pomni_errors_total", "Errors, by kind", ["kind"])
        self.tokens = counter(
            "pomni_tokens_total", "Tokens; cached ones are prompt tokens too", ["model", "kind"]
        )
        self.models = histogram("pomni_model_seconds", "Duration of model calls", ["purpose"])
        self.requests = counter(
            "pomni_telegram_requests_total", "Requests to Telegram", ["method", "result"]
        )
        self.reminders = counter(
            "pomni_reminders_total", "Reminders whose time came, by outcome", ["outcome"]
        )
        self.waiting = gauge("pomni_queue_waiting", "Updates not handled yet")
        self.oldest = gauge("pomni_queue_oldest_seconds", "Age of the oldest of them")
        self.deaths = counter("pomni_job_deaths_total", "Jobs whose process died while they ran")
        self.put_aside = gauge(
            "pomni_jobs_put_aside", "Jobs, messages and documents put aside: bot.py jobs"
        )
        self.ceilings = counter(
            "pomni_ceiling_refusals_total", "Messages refused by a ceiling of the day", ["ceiling"]
        )
        self.tool_calls = counter(
            "pomni_server_tool_calls_total", "Calls of tools of MCP servers", ["server", "result"]
        )
        self.batch_requests = counter(
            "pomni_batch_requests_total", "Windows read by batch APIs", ["provider", "outcome"]
        )
        self.consolidated = counter(
            "pomni_consolidated_total", "Facts merged or retired by the nightly job", ["kind"]
        )
        self.expired = counter(
            "pomni_messages_expired_total", "Messages deleted by message_retention_days"
        )
        self.batches = gauge("pomni_batches_open", "Batches that are not over yet")
        self.last_poll = gauge(
            "pomni_last_receive_timestamp_seconds", "Time of Telegram's last answer or call"
        )
        self.searches_by_words = counter(
            "pomni_searches_by_words_total", "Searches whose embedding was not there in time"
        )
        self.engine_deaths = counter(
            "pomni_embedding_engine_deaths_total", "Deaths and hangs of the local engine"
        )
        self.forms = counter(
            "pomni_forms_total", "Forms that models filled: read, entries dropped", ["result"]
        )
        self.poison_texts = counter(
            "pomni_poison_texts_total", "Texts that the local embedding engine dies of"
        )

    def stage(self, name: str) -> AbstractContextManager[Any]:
        """Time a stage of a turn, also if it fails."""
        return self.stages.labels(name).time()

    def render(self) -> bytes:
        """Return the metrics in Prometheus' text format."""
        return generate_latest(self.registry)
