"""An agent that is on call with somebody: incidents, hosts, deployments, metrics and tickets."""

from benchmarks.long_runs.draw import Draw
from benchmarks.long_runs.operations_phrases import OPERATIONS
from benchmarks.long_runs.planting import Json
from benchmarks.long_runs.toolwork import Step, Toolwork, many, paragraphs

_REMARKS = (
    "Checking the metrics.",
    "I'll look into the logs of {host}.",
    "Let me see what changed.",
    "Comparing with yesterday.",
    "Running it now.",
    "The graph is inconclusive, I look at the nodes.",
)
_ANSWERS = (
    "Latency of {service} went up at {time}, together with the number of connections.",
    "The node is healthy again.",
    "I see no errors on the other replicas.",
    "{host} shows more load than its neighbours, but not alarmingly so.",
    "I suggest waiting for ten minutes before the next step.",
    "The deployment finished on all nodes.",
    "Memory grows slowly, as it would with a leak.",
    "About {percent} % of the requests were affected.",
    "No customer should notice it any more.",
    "Shall I go on with the next one?",
    "The queue is draining, it was {number} messages long.",
    "Two alerts are still firing, both about {service}.",
    "I took the host out of the pool and put it back.",
    "Replication lag is below a second.",
    "This looks like the same pattern as before.",
    "The pods were rescheduled to {host}.",
)
_LOG_LINES = (
    "INFO  request done path=/api/{table} ms={minutes}",
    "INFO  connection from {ip} accepted",
    "DEBUG pool size={minutes} idle={percent}",
    "WARN  slow query on {table}: {number} ms",
    "INFO  heartbeat ok node={host}",
    "INFO  flushed {number} records to {path}",
    "DEBUG cache hit ratio 0.{percent}",
    "INFO  session closed user={first}",
)
_ERROR_LINES = (
    "ERROR upstream [{ip}]:[{port}] timed out",
    "FATAL could not open [{path}]: disk quota exceeded",
    "ERROR x509: certificate of [{host}] has expired",
    "ERROR deadlock detected on [{table}] by backend [{number}]",
    "panic: [{function}] called with nil [{class}]",
    "ERROR too many connections for role [{table}]",
    "ERROR broker [{host}] rejected offset [{number}]",
    "kernel: Out of memory: Killed process [{number}] ([{service}])",
    "ERROR checksum mismatch in segment [{number}] of [{table}]",
    "ERROR dial tcp [{ip}]:[{port}]: no route to host",
)


class Operations:
    phrases = OPERATIONS
    steps_of_a_turn = (1, 5)

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._tools = Toolwork(draw, _REMARKS)

    def noise(self) -> Step:
        return self._draw.one(
            (self._metrics, self._metrics, self._logs, self._logs, self._pods, self._describe, self._shell)
        )()

    def telling_id(self) -> Step:
        return self._draw.one((self._deploy, self._ticket, self._incident, self._snapshot, self._silence))()

    def error(self) -> Step:
        return self._draw.one((self._failing_logs, self._failing_logs, self._failed_call, self._failed_deploy))()

    def answer(self) -> str:
        return paragraphs(self._draw, _ANSWERS, 1, 6)

    def pasted(self) -> str:
        """What a user pastes between what they say."""
        return "\n".join(self._log(6, 25))

    def _log(self, least: int, most: int) -> list[str]:
        return many(
            self._draw,
            least,
            most,
            lambda: f"{self._clock()} {self._draw.said(self._draw.one(_LOG_LINES))}",
        )

    def _clock(self) -> str:
        return f"2026-04-{self._draw.number(10, 28)}T{self._draw.of('time')}:{self._draw.number(10, 59)}Z"

    def _failure(self) -> tuple[str, tuple[str, ...]]:
        return self._draw.filled(self._draw.one(_ERROR_LINES))

    def _metrics(self) -> Step:
        series = many(
            self._draw,
            2,
            6,
            lambda: {
                "labels": {"host": self._draw.of("host"), "job": self._draw.of("service")},
                "points": many(
                    self._draw,
                    12,
                    40,
                    lambda: [self._draw.number(1_770_000_000, 1_779_000_000), self._draw.number(1, 999) / 10],
                ),
            },
        )
        return self._tools.step("query_metrics", {"query": f"rate({self._draw.of('table')}[5m])"}, {"series": series})

    def _logs(self) -> Step:
        return self._tools.step("get_logs", {"host": self._draw.of("host")}, "\n".join(self._log(20, 90)))

    def _pods(self) -> Step:
        rows = many(
            self._draw,
            6,
            40,
            lambda: f"{self._draw.of('service')}-{self._draw.letters(5)}  1/1  Running  0  {self._draw.number(1, 90)}d",
        )
        return self._tools.step("list_pods", {}, "\n".join(["NAME  READY  STATUS  RESTARTS  AGE", *rows]))

    def _describe(self) -> Step:
        disks = [
            {"mount": self._draw.of("path"), "used": self._draw.number(1, 99)} for _ in range(self._draw.number(3, 9))
        ]
        host: Json = {"name": self._draw.of("host"), "ip": self._draw.of("ip"), "cores": 16, "disks": disks}
        return self._tools.step("describe_host", {"host": host["name"]}, host)

    def _shell(self) -> Step:
        lines = many(self._draw, 4, 20, lambda: f"{self._draw.number(100, 99_999):>6} {self._draw.words(3)}")
        return self._tools.step("run_command", {"command": "top -b -n 1"}, "\n".join(lines))

    def _failing_logs(self) -> Step:
        lines = self._log(15, 60)
        line, values = self._failure()
        lines.insert(self._draw.number(0, len(lines)), f"{self._clock()} {line}")
        return self._tools.with_error(
            "get_logs", {"host": self._draw.of("host")}, "\n".join(lines), values, marked=False
        )

    def _failed_call(self) -> Step:
        line, values = self._failure()
        result = {
            "ok": False,
            "status": self._draw.one((500, 502, 503, 504)),
            "error": {"message": line, "retry": True},
        }
        arguments = {"service": self._draw.of("service")}
        return self._tools.with_error("health_check", arguments, result, values, marked=self._draw.chance(0.5))

    def _failed_deploy(self) -> Step:
        line, values = self._failure()
        text = "\n".join(
            [*(f"step {number} done" for number in range(1, self._draw.number(3, 9))), line, "exit code 1"]
        )
        return self._tools.with_error("deploy", {"service": self._draw.of("service")}, text, values, marked=True)

    def _deploy(self) -> Step:
        deploy = self._draw.of("deploy")
        nodes = [{"host": self._draw.of("host"), "state": "done"} for _ in range(self._draw.number(3, 14))]
        result = {"service": self._draw.of("service"), "nodes": nodes, "id": deploy, "state": "succeeded"}
        return self._tools.with_id("deploy", {"service": result["service"]}, result, deploy)

    def _ticket(self) -> Step:
        ticket = self._draw.of("ticket")
        text = f"Ticket {ticket} was created and assigned to {self._draw.of('team')}."
        return self._tools.with_id("create_ticket", {"title": self._draw.words(5)}, text, ticket)

    def _incident(self) -> Step:
        incident = self._draw.of("incident")
        timeline = many(self._draw, 3, 10, lambda: {"at": self._clock(), "what": self._draw.words(5)})
        result = {"timeline": timeline, "severity": 2, "number": incident, "commander": self._draw.of("name")}
        return self._tools.with_id("open_incident", {"severity": 2}, result, incident)

    def _snapshot(self) -> Step:
        snapshot = f"snap-{self._draw.letters(10, '0123456789abcdef')}"
        text = f"Snapshot of {self._draw.of('path')} started\nid: {snapshot}\nsize: {self._draw.number(10, 900)} GiB"
        return self._tools.with_id("create_snapshot", {"volume": "data"}, text, snapshot)

    def _silence(self) -> Step:
        silence = self._draw.uuid()
        return self._tools.with_id(
            "silence_alert", {"minutes": 30}, {"status": "active", "silenceID": silence}, silence
        )
