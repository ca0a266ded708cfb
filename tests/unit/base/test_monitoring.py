"""The dashboard and the alerts ask for metrics, labels and values that the bot really exports."""

from __future__ import annotations

import ast
import functools
import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from src.base.metrics import Metrics

ROOT = Path(__file__).resolve().parents[3]
DASHBOARD: dict[str, Any] = json.loads((ROOT / "monitoring/grafana_dashboard.json").read_text())
ALERTS: dict[str, Any] = yaml.safe_load((ROOT / "monitoring/alerts.yml").read_text())
RULES = [rule for group in ALERTS["groups"] for rule in group["rules"]]
EXPRESSIONS = [
    *(target["expr"] for panel in DASHBOARD["panels"] for target in panel["targets"]),
    *(rule["expr"] for rule in RULES),
]
PROMETHEUS_OWN = {"up": {"job", "instance"}}


@functools.cache
def exported() -> dict[str, set[str]]:
    found = dict(PROMETHEUS_OWN)
    for metric in Metrics().registry._collector_to_names:
        labels = set(metric._labelnames)  # type: ignore[attr-defined]
        name, kind = metric._name, metric._type  # type: ignore[attr-defined]
        if kind == "histogram":
            found |= {f"{name}_bucket": labels | {"le"}, f"{name}_count": labels}
        else:
            found[f"{name}_total" if kind == "counter" else name] = labels
    return found


@functools.cache
def words_of_source() -> set[str]:
    """Every string constant of the program, among them the values of labels."""
    return {
        node.value
        for path in (ROOT / "src").rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    }


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_what_is_asked_for_is_exported(expression: str) -> None:
    series = exported()
    named = re.findall(r"\b(pomni_\w+|up)\b(?:\{([^}]*)\})?", expression)
    assert named, expression
    asked: set[str] = set()
    for name, selector in named:
        assert name in series, name
        asked |= series[name]
        for label, operator, value in re.findall(r'(\w+)(=~|!~|!=|=)"([^"]*)"', selector):
            assert label in series[name], f"{name} has no {label}"
            if "~" not in operator and name not in PROMETHEUS_OWN:
                assert value in words_of_source(), f"{label} is never {value}"
    for labels in re.findall(r"\bby \(([^)]*)\)", expression):
        assert {label.strip() for label in labels.split(",")} <= asked, labels
    assert expression.count("(") == expression.count(")")


def test_legends_and_sentences_name_labels_that_remain() -> None:
    for panel in DASHBOARD["panels"]:
        for target in panel["targets"]:
            kept = {
                label.strip()
                for labels in re.findall(r"\bby \(([^)]*)\)", target["expr"])
                for label in labels.split(",")
            }
            assert set(re.findall(r"{{(\w+)}}", target["legendFormat"])) <= kept
    for rule in RULES:
        assert rule["labels"]["severity"] in ("page", "warn")
        assert rule["annotations"]["summary"] and rule["annotations"]["action"]
        for label in re.findall(r"\$labels\.(\w+)", rule["annotations"]["summary"]):
            assert any(label in exported()[name] for name in exported() if name in rule["expr"])


def test_every_metric_is_on_the_dashboard() -> None:
    shown = " ".join(EXPRESSIONS)
    hidden = [name for name in exported() if name not in shown and not name.endswith("_count")]
    assert hidden == []
