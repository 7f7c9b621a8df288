"""The alerts and the dashboard in `configs/`: they only use metrics and labels that the server has."""

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from ruamel.yaml import YAML
from source_tree import ROOT

from layerlore.server.http.metrics_page import NAMESPACE
from layerlore.storage.core import metrics

CONFIGS = ROOT / "configs"
SUFFIXES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_sum", "_count")}
BY_NAME = {f"{NAMESPACE}_{metric.name}{suffix}": metric for metric in metrics.ALL for suffix in SUFFIXES[metric.kind]}
FROM_PROMETHEUS = {"instance", "job", "le"}


def alerts() -> list[dict[str, Any]]:
    (group,) = YAML(typ="safe").load((CONFIGS / "prometheus-alerts.yaml").read_text(encoding="utf-8"))["groups"]
    return [dict(rule) for rule in group["rules"]]


def panels() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((CONFIGS / "grafana-dashboard.json").read_text(encoding="utf-8"))["panels"]
    return found


def expressions() -> Iterator[str]:
    yield from (rule["expr"] for rule in alerts())
    yield from (target["expr"] for panel in panels() for target in panel["targets"])


def unknown_parts(expression: str) -> set[str]:
    """The metrics, and the labels of a metric, that the server does not have."""
    names = set(re.findall(rf"\b{NAMESPACE}_\w+", expression))
    wrong = names - BY_NAME.keys()
    labels = {"worker", *FROM_PROMETHEUS}
    for name in names & BY_NAME.keys():
        labels |= {*BY_NAME[name].labels}
    selected = re.findall(r"(\w+)\s*=~?\s*\"", expression)
    grouped = [label.strip() for found in re.findall(r"\bby \(([^)]*)\)", expression) for label in found.split(",")]
    return wrong | ({*selected, *grouped} - labels)


@pytest.mark.parametrize("expression", [*expressions()])
def test_every_metric_and_label_of_an_expression_exists(expression: str) -> None:
    assert unknown_parts(expression) == set()


@pytest.mark.parametrize(
    "expression",
    ["sum(layerlore_called_total)", 'layerlore_calls_total{result="ok"}', "sum by (tenant) (layerlore_calls_total)"],
)
def test_an_unknown_metric_or_label_is_found(expression: str) -> None:
    assert len(unknown_parts(expression)) == 1


def test_every_alert_says_what_is_wrong_and_how_urgent_it_is() -> None:
    names = [rule["alert"] for rule in alerts()]
    assert len(names) == len({*names}) > 5
    for rule in alerts():
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("page", "warn")
        assert rule["annotations"]["summary"].endswith(".")


def test_every_metric_of_the_server_is_on_the_dashboard_or_in_an_alert() -> None:
    shown = " ".join(expressions())
    unseen = {metric.name for metric in metrics.ALL if f"{NAMESPACE}_{metric.name}" not in shown}
    assert unseen == set()


def test_every_metric_stands_in_the_guide() -> None:
    guide = (ROOT / "docs" / "metrics.md").read_text(encoding="utf-8")
    for name, metric in BY_NAME.items():
        shown = name.removesuffix("_bucket").removesuffix("_sum").removesuffix("_count")
        assert f"`{shown}`" in guide, shown
        assert all(f"`{label}`" in guide for label in metric.labels), shown


def test_panels_lie_beside_each_other() -> None:
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in panels()]
    assert len({*places}) == len(places) == len({panel["id"] for panel in panels()})
    for panel in panels():
        assert panel["type"] == "timeseries"
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"])
