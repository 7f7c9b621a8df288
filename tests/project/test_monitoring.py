"""The alerts and the dashboard in `configs/`: they only use metrics and labels that the server has, and others' parsers take
them."""

import json
import re
from collections.abc import Iterator
from typing import Any

import promql_parser
import pytest
from grafana_foundation_sdk.cog import plugins
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models.dashboard import Dashboard
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


def dashboard() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((CONFIGS / "grafana-dashboard.json").read_text(encoding="utf-8"))
    return found


def panels() -> list[dict[str, Any]]:
    return [dict(panel) for panel in dashboard()["panels"]]


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


def parse(expression: str) -> promql_parser.Expr:
    # Grafana puts an interval here before Prometheus sees the expression.
    return promql_parser.parse(expression.replace("$__rate_interval", "1m"))


@pytest.mark.parametrize("expression", [*expressions()])
def test_prometheus_own_grammar_takes_every_expression(expression: str) -> None:
    parse(expression)


@pytest.mark.parametrize("expression", ["sum(layerlore_calls_total", "rate(layerlore_calls_total)", "increse(up[5m])"])
def test_an_expression_that_prometheus_would_refuse_is_found(expression: str) -> None:
    with pytest.raises(ValueError, match=r"unclosed|expected type|unknown function"):
        parse(expression)


def test_prometheus_reads_the_time_that_an_alert_waits() -> None:
    for waits in (rule["for"] for rule in alerts() if "for" in rule):
        assert 0 < promql_parser.parse_duration(waits).total_seconds() <= 3600


def unread_parts(given: Any, read: Any, place: str = "dashboard") -> list[str]:
    """What Grafana's own classes did not keep of a dashboard."""
    if isinstance(given, dict) and isinstance(read, dict):
        missing = [f"{place}.{name}" for name in given.keys() - read.keys()]
        shared = given.keys() & read.keys()
        return missing + [part for name in shared for part in unread_parts(given[name], read[name], f"{place}.{name}")]
    if isinstance(given, list) and isinstance(read, list) and len(given) == len(read):
        return [
            part
            for n, pair in enumerate(zip(given, read, strict=True))
            for part in unread_parts(*pair, f"{place}[{n}]")
        ]
    return [] if given == read else [place]


def as_grafana_reads(given: dict[str, Any]) -> Any:
    plugins.register_default_plugins()
    return json.loads(JSONEncoder().encode(Dashboard.from_json(given)))


def test_grafana_knows_every_part_of_the_dashboard() -> None:
    given = dashboard()
    assert unread_parts(given, as_grafana_reads(given)) == []


def test_a_part_that_grafana_does_not_know_is_found() -> None:
    given = dashboard()
    given["panels"][1]["targets"][0]["exprs"] = "up"
    assert unread_parts(given, as_grafana_reads(given)) == ["dashboard.panels[1].targets[0].exprs"]


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
