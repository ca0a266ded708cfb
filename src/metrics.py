"""Prometheus metrics, in a registry of their own that ``bot.py`` makes and hands down."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

STAGES = ("store", "load", "model", "save", "deliver")
# Seconds: from a statement's milliseconds to a model's minutes.
BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)


class Metrics:
    """What the process counts. Label values are few and fixed: no user ids, no text."""

    def __init__(self) -> None:
        """Register every metric in a new registry."""
        self.registry = CollectorRegistry()
        self.updates = Counter(
            "pomni_updates_total", "Updates stored, by kind", ["kind"], registry=self.registry
        )
        self.turns = Counter(
            "pomni_turns_total", "Turns, by how they ended", ["outcome"], registry=self.registry
        )
        self.stages = Histogram(
            "pomni_stage_seconds",
            "How long each stage of a turn took",
            ["stage"],
            buckets=BUCKETS,
            registry=self.registry,
        )
        self.errors = Counter(
            "pomni_errors_total", "Errors, by kind", ["kind"], registry=self.registry
        )
        self.tokens = Counter(
            "pomni_tokens_total",
            "Model tokens: prompt, cached (a part of prompt), completion",
            ["model", "kind"],
            registry=self.registry,
        )
        self.requests = Counter(
            "pomni_telegram_requests_total",
            "Requests to Telegram, by method and result",
            ["method", "result"],
            registry=self.registry,
        )
        self.waiting = Gauge(
            "pomni_queue_waiting", "Updates not handled yet", registry=self.registry
        )
        self.oldest = Gauge(
            "pomni_queue_oldest_seconds", "Age of the oldest of them", registry=self.registry
        )
        self.deaths = Counter(
            "pomni_job_deaths_total",
            "Jobs whose process died while they ran",
            registry=self.registry,
        )
        self.put_aside = Gauge(
            "pomni_jobs_put_aside",
            "Jobs, messages and documents that are not tried any more: bot.py jobs",
            registry=self.registry,
        )
        self.last_poll = Gauge(
            "pomni_last_receive_timestamp_seconds",
            "When Telegram last answered getUpdates or called the webhook",
            registry=self.registry,
        )

        self.engine_deaths = Counter(
            "pomni_embedding_engine_deaths_total",
            "How often the local embedding engine died or hung with a text in hand",
            registry=self.registry,
        )
        self.poison_texts = Counter(
            "pomni_poison_texts_total",
            "Texts that the local embedding engine dies of; they are found by words alone",
            registry=self.registry,
        )

    @contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Time a stage of a turn, also when it fails."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.stages.labels(name).observe(time.perf_counter() - start)

    def render(self) -> bytes:
        """The metrics in Prometheus' text format."""
        return generate_latest(self.registry)
