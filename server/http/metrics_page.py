"""The page ``/metrics`` that Prometheus scrapes, on an address of its own. Only a server with `metrics.address` loads it."""

from functools import partial
from typing import Any

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    start_http_server,
)

from layerlore.storage.core import metrics
from layerlore.storage.core.metrics import Metric

NAMESPACE = "layerlore"


def open_metrics_page(host: str, port: int, worker: int) -> int:
    """Keep all metrics from now on, and serve them. Returns the port. ``worker``: the value of that label. Raises OSError
    if the address cannot be listened on."""
    registry = CollectorRegistry()
    # These two have no label of ours, so that common dashboards work.
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    kept = [(metric, _make(metric, registry)) for metric in metrics.ALL]
    server, _ = start_http_server(port, host, registry)
    # Counting begins only now, when the page can be read.
    for metric, series in kept:
        metric.keep(partial(series.labels, str(worker)))
        # An alert needs the zero before the first event.
        if not metric.labels:
            series.labels(str(worker))
    return int(server.server_port)


def _make(metric: Metric, registry: CollectorRegistry) -> Any:
    labels = ("worker", *metric.labels)
    options: dict[str, Any] = {"labelnames": labels, "namespace": NAMESPACE, "registry": registry}
    if metric.kind == "counter":
        return Counter(metric.name, metric.text, **options)
    if metric.kind == "gauge":
        return Gauge(metric.name, metric.text, **options)
    return Histogram(metric.name, metric.text, buckets=metrics.QUICK_SECONDS, **options)
