"""A group that is watched: a table for a terminal, a page that refreshes itself, metrics."""

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector
from rich.console import Group, RenderableType
from rich.table import Column, Table
from rich.text import Text

from tidings.core import EnvironmentMissing
from tidings.pipeline.watching.status import MemberStatus, RunStatus, SoFar, Status, owed_words
from tidings.report.markup import Markup, element
from tidings.report.palette import themed
from tidings.report.terminal import in_a_word
from tidings.report.words import MARKS, many
from tidings.spec import Value

REFRESH_S = 2

# --- in a terminal


def live_table(status: Status | None) -> RenderableType:
    """Members, lag, what is owed, verdicts."""
    if status is None:
        return Text("nothing has been read yet")
    lag = "" if status.lag_s is None else f", {status.lag_s:.1f} s behind"
    head = Text(
        f"batch {status.batch:,}: {many(status.rows, 'row')} judged{lag}, "
        f"{many(status.alarms, 'alarm')}"
    )
    return Group(head, *(part for run in status.runs for part in _run(run, status.at_s)))


def _run(run: RunStatus, at_s: float) -> Iterator[RenderableType]:
    numbers = (Column(name, justify="right") for name in ("rows", "last row", "owes"))
    members = Table("member", *numbers, "", box=None, pad_edge=False)
    for one in run.members:
        owes = sum(debt.count for debt in run.owed if debt.process == one.name)
        members.add_row(one.name, f"{one.rows:,}", _age(one, at_s), f"{owes:,}", _remark(one))
    yield members
    verdicts = Table("guarantee", "so far", Column("judged", justify="right"), box=None,
                     pad_edge=False)  # fmt: skip
    for verdict in run.verdicts:
        verdicts.add_row(verdict.guarantee, in_a_word(verdict.value), f"{verdict.judged:,}")
    yield verdicts
    for line in owed_words(run.owed):
        yield Text(line)
    if run.waiting:
        yield Text(f"{many(run.waiting, 'delivery')} cannot be judged yet")


def _age(member: MemberStatus, at_s: float) -> str:
    return f"{at_s - member.time_ns / 1e9:,.1f} s ago" if _has_clock(member, at_s) else "-"


def _moment(member: MemberStatus, at_s: float) -> str:
    if not _has_clock(member, at_s):
        return "-"
    return time.strftime("%Y-%m-%d %H:%M:%S", time.gmtime(member.time_ns / 1e9))


def _has_clock(member: MemberStatus, at_s: float) -> bool:
    """Whether its times are those of a clock on a wall."""
    return bool(member.time_ns) and 0 <= at_s - member.time_ns / 1e9 < 1e6


def _remark(member: MemberStatus) -> str:
    if member.late:
        return f"{many(member.late, 'row')} behind a missing part"
    if member.last_kind in ("settle", "crash", "leave"):
        return {"settle": "settled", "crash": "crashed", "leave": "left"}[member.last_kind]
    return "" if member.rows else "no history yet"


# --- on a page

_RULES = themed(
    "body{{background:{paper};color:{ink}}}p.about,th,td.why{{color:{soft}}}"
    "td,th{{border-color:{line}}}.alarms{{background:{callout};border-color:{wrong}}}"
    ".violated{{color:{wrong};font-weight:bold}}.holds{{color:{deliver}}}.unknown{{color:{lost}}}",
    "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem}"
    "h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:1.5rem 0 .25rem}p{margin:0}"
    "table{border-collapse:collapse;width:100%;margin-top:1.5rem}"
    "td,th{padding:.3rem 1rem .3rem 0;text-align:left;vertical-align:top;"
    "border-bottom:1px solid;font-variant-numeric:tabular-nums}th{font-weight:normal}"
    "td.word,td span{white-space:nowrap}td.number,th.number{text-align:right}"
    "ul{margin:0;padding-left:1.2rem;overflow-wrap:anywhere}"
    ".alarms{border-left:4px solid;padding:.5rem 1rem;margin-top:1rem}.alarms h2{margin-top:0}"
    "@media (max-width:40rem){td.word{white-space:normal}td,th{padding-right:.5rem}"
    "td.why{font-size:.9rem}}",
)


def live_page(
    status: Status | None, name: str, alarms: Sequence[str] = (), *, is_over: bool = False
) -> str:
    """A page that loads itself again every two seconds, until it is over, and needs no network.

    ``alarms`` are the newest, the newest last.
    """
    body = [element("p", "Nothing has been read yet.")]
    if status is not None:
        body = _sections(status, alarms, is_over)
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        None if is_over else element("meta", http_equiv="refresh", content=str(REFRESH_S)),
        element("title", f"tidings watch {name}"),
        element("style", Markup(_RULES)),
    )
    return "<!doctype html>" + element(
        "html", head, element("body", element("h1", name), *body), lang="en"
    )


def _sections(status: Status, alarms: Sequence[str], is_over: bool) -> list[Markup]:
    lag = "" if status.lag_s is None else f", {status.lag_s:.1f} s after they were written"
    shown = time.strftime("%H:%M:%S", time.localtime(status.at_s))
    about = f"{many(status.rows, 'row')} judged at {shown}{lag}"
    about = f"{many(status.rows, 'row')} judged; the watch is over" if is_over else about
    parts = [element("p", about, class_="about"), _html_alarms(status.alarms, alarms)]
    for run in status.runs:
        if len(status.runs) > 1:
            parts.append(element("h2", run.run))
        head = _html_row("th", "guarantee", "verdict" if is_over else "so far", "judged", "")
        parts.append(element("table", head, *map(_html_verdict, run.verdicts)))
        # A page that rests says when, for an age would soon be wrong.
        last = "last row (UTC)" if is_over else "last row"
        head = _html_row("th", "member", last, "rows", "")
        members = (_html_member(one, status.at_s, is_over) for one in run.members)
        parts.append(element("table", head, *members))
        if run.owed and not is_over:
            owed = owed_words(run.owed, status.at_s, most=20)
            parts += [element("h2", "Owed"), _html_list(owed)]
    return parts


def _html_alarms(count: int, newest: Sequence[str]) -> Markup:
    if not count:
        return Markup("")
    head = many(count, "alarm") + (f", the last {len(newest)}" if count > len(newest) > 0 else "")
    lines = _html_list(list(reversed(newest)))
    return element("section", element("h2", head), lines, class_="alarms")


def _html_list(lines: Sequence[str]) -> Markup:
    return element("ul", *(element("li", line) for line in lines))


def _html_member(one: MemberStatus, at_s: float, is_over: bool) -> Markup:
    last = _moment(one, at_s) if is_over else _age(one, at_s)
    return _html_row("td", one.name, last, f"{one.rows:,}", _remark(one))


def _html_verdict(one: SoFar) -> Markup:
    word = element("span", f"{MARKS[one.value]} {one.value.value}", class_=one.value.value)
    found = many(one.violated, "violation") if one.violated else ""
    why = "; ".join(filter(None, (found, one.reason, one.note)))
    return _html_row("td", one.guarantee, word, f"{one.judged:,}", why)


def _html_row(kind: str, *cells: str) -> Markup:
    """A name, a word, a number, and an explanation."""
    columns = zip(cells, ("word", "word", "number", "why"), strict=True)
    return element("tr", *(element(kind, text, class_=column) for text, column in columns))


# --- for Prometheus


class WatchMetrics(Collector):
    """Read from the status when somebody asks."""

    def __init__(self, status: Callable[[], Status | None]) -> None:
        self._status = status
        self.registry = CollectorRegistry()
        self.registry.register(self)
        self._server: WSGIServer | None = None
        self._thread: threading.Thread | None = None

    def listen(self, port: int) -> None:
        try:
            self._server, self._thread = start_http_server(
                port, addr="127.0.0.1", registry=self.registry
            )
        except OSError as fault:
            raise EnvironmentMissing(f"no metrics on port {port}: {fault.strerror}") from None

    def close(self) -> None:
        if self._server is not None and self._thread is not None:
            self._server.shutdown()
            self._server.server_close()
            self._thread.join()

    def collect(self) -> Iterator[Metric]:
        status = self._status()
        if status is None:
            return
        rows = CounterMetricFamily("tidings_watch_rows", "Rows that have been judged.")
        rows.add_metric([], status.rows)
        alarms = CounterMetricFamily("tidings_watch_alarms", "Violations that have been found.")
        alarms.add_metric([], status.alarms)
        at = GaugeMetricFamily("tidings_watch_batch_seconds", "When the last batch was judged.")
        at.add_metric([], status.at_s)
        lag = GaugeMetricFamily("tidings_watch_lag_seconds", "From the newest row to its verdict.")
        if status.lag_s is not None:
            lag.add_metric([], status.lag_s)
        verdict = GaugeMetricFamily(
            "tidings_watch_verdict", "1 holds so far, 0 unknown, -1 violated.",
            labels=["run", "guarantee"],
        )  # fmt: skip
        owed = GaugeMetricFamily(
            "tidings_watch_owed", "Messages that a member has yet to deliver.",
            labels=["run", "member"],
        )  # fmt: skip
        oldest = GaugeMetricFamily(
            "tidings_watch_owed_since_seconds", "Since when the oldest of them is owed.",
            labels=["run", "member"],
        )  # fmt: skip
        for run in status.runs:
            for one in run.verdicts:
                verdict.add_metric([run.run, one.guarantee], _NUMBERS[one.value])
            for member in run.members:
                debts = [debt for debt in run.owed if debt.process == member.name]
                owed.add_metric([run.run, member.name], sum(debt.count for debt in debts))
                if debts:
                    since = min(debt.since_s for debt in debts)
                    oldest.add_metric([run.run, member.name], since)
        yield from (rows, alarms, at, lag, verdict, owed, oldest)


_NUMBERS = {Value.HOLDS: 1, Value.UNKNOWN: 0, Value.VIOLATED: -1}
