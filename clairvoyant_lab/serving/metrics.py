"""Prometheus metrics, made when they are asked for: a request costs no metric call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from clairvoyant_lab import __version__

if TYPE_CHECKING:
    from clairvoyant_lab.serving.proxy import Proxy

__all__ = ["CONTENT_TYPE", "render_metrics"]

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class _ProxyCollector(Collector):
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def collect(self) -> Iterator[Metric]:
        proxy = self._proxy
        history, line = proxy.history, proxy.line
        info = GaugeMetricFamily("clairvoyant_info", "What runs.", labels=["version", "policy", "model"])
        info.add_metric([__version__, line.policy.name, proxy.recorder.model_name], 1)
        yield info
        yield CounterMetricFamily(
            "clairvoyant_requests_received", "Scheduled requests that came.", value=history.received
        )
        ended = CounterMetricFamily(
            "clairvoyant_requests_ended", "Scheduled requests that ended, by how.", labels=["outcome"]
        )
        for outcome, count in history.outcomes.items():
            ended.add_metric([outcome], count)
        yield ended
        yield CounterMetricFamily(
            "clairvoyant_requests_passed_through",
            "Requests that were not scheduled.",
            value=history.passed_through,
        )
        yield CounterMetricFamily("clairvoyant_dispatched", "Dispatches.", value=line.dispatched)
        yield CounterMetricFamily(
            "clairvoyant_promoted", "Dispatches by the starvation timeout.", value=line.promoted
        )
        yield CounterMetricFamily(
            "clairvoyant_predictor_failures",
            "Requests scheduled neutrally because the predictor failed.",
            value=proxy.forecaster.failures,
        )
        yield CounterMetricFamily(
            "clairvoyant_response_tokens",
            "Tokens of whole answers, as far as known.",
            value=history.response_tokens,
        )
        yield GaugeMetricFamily("clairvoyant_waiting", "Requests that wait.", value=len(line.waiting))
        yield GaugeMetricFamily("clairvoyant_running", "Requests at the backend.", value=len(line.running))
        yield GaugeMetricFamily("clairvoyant_slots", "Requests that may run at once.", value=line.slots)
        timeout = line.policy.starvation_timeout_s
        tau = GaugeMetricFamily("clairvoyant_starvation_timeout_seconds", "τ; absent without a limit.")
        if timeout is not None:
            tau.add_metric([], timeout)
        yield tau
        journal = proxy.recorder.state()
        yield GaugeMetricFamily(
            "clairvoyant_journal_writing",
            "1 while the journal is written.",
            value=int(journal["state"] == "writing"),
        )
        yield CounterMetricFamily(
            "clairvoyant_journal_rows", "Rows in the journal's file.", value=journal["written"]
        )
        yield CounterMetricFamily(
            "clairvoyant_journal_rows_lost", "Rows a failed journal lost.", value=journal["lost"]
        )
        for name, help_text, histogram in (
            ("clairvoyant_wait_seconds", "Time in the queue.", history.wait_histogram),
            ("clairvoyant_service_seconds", "Dispatch to end.", history.service_histogram),
        ):
            yield HistogramMetricFamily(
                name, help_text, buckets=histogram.buckets(), sum_value=histogram.total
            )


def render_metrics(proxy: Proxy) -> bytes:
    """The metrics in Prometheus' text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_ProxyCollector(proxy))
    return generate_latest(registry)
