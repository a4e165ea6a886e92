"""deploy/: checked by the tools that will read it, and by running the commands that it contains."""

import base64
import json
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from prometheus_client import generate_latest

from guides import ROOT
from programs import TIDINGS, running
from real_groups import go, group_file, joined, linked, until
from requirements_met import require
from tidings.node.config import read_config
from tidings.node.metrics import Metrics
from tidings.testkit.fleet import free_ports

DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "tidings.service"
RULES = DEPLOY / "prometheus" / "tidings.rules.yaml"
WATCH_RULES = DEPLOY / "prometheus" / "tidings-watch.rules.yaml"
DASHBOARD = DEPLOY / "grafana" / "tidings.json"
COMPOSE = DEPLOY / "compose.yaml"
KUBERNETES = DEPLOY / "kubernetes" / "tidings.yaml"
PORT = "9464"
FILE = "group.toml"


def tool(name: str, what: str) -> str:
    """Where a program is that a requirement brings along."""
    found = shutil.which(name) or shutil.which(str(Path(sys.executable).with_name(name)))
    require(what, found is not None, f"there is no {name}; make system-deps installs it")
    return str(found)


def checked(*command: str | Path) -> str:
    ended = subprocess.run(command, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout + ended.stderr


def loaded(file: Path) -> list[Any]:
    require("validators", find_spec("yaml") is not None, "there is no yaml; make installs it")
    import yaml

    return list(yaml.safe_load_all(file.read_text()))


# --- by the tools that will read it


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    analyze = tool("systemd-analyze", "systemd")
    unit = tmp_path / "tidings.service"
    unit.write_text(UNIT.read_text().replace("/opt/tidings/bin/tidings", TIDINGS))
    assert checked(analyze, "verify", unit) == ""
    unit.write_text(unit.read_text().replace("Type=exec", "Type=exe"))
    assert "service type" in checked(analyze, "verify", unit), "it would have noticed"


def test_the_container_file_is_linted_and_does_not_run_as_root() -> None:
    assert checked(tool("hadolint", "validators"), DEPLOY / "Dockerfile") == ""
    lines = (DEPLOY / "Dockerfile").read_text().splitlines()
    assert "USER 10001" in lines
    assert any(line.startswith("HEALTHCHECK ") for line in lines)


def test_the_compose_file_fits_its_schema() -> None:
    schema = tool("check-jsonschema", "validators")
    checked(schema, "--builtin-schema", "vendor.compose-spec", COMPOSE)
    (compose,) = loaded(COMPOSE)
    assert list(compose["services"]) == ["p1", "p2", "p3"]


def test_the_manifests_fit_their_schemas(tmp_path: Path) -> None:
    validate = tool("kubernetes-validate", "validators")
    assert "passed for resource statefulset/tidings" in checked(validate, KUBERNETES)
    wrong = tmp_path / "wrong.yaml"
    wrong.write_text(KUBERNETES.read_text().replace("replicas: 3", "replicas: three"))
    assert subprocess.run([validate, wrong], capture_output=True).returncode != 0


def test_prometheus_accepts_the_rules_and_every_query_of_the_dashboard(tmp_path: Path) -> None:
    promtool = tool("promtool", "promtool")
    checked(promtool, "check", "rules", RULES)
    checked(promtool, "check", "rules", WATCH_RULES)
    queries = [target["expr"] for panel in panels() for target in panel["targets"]]
    assert len(queries) >= 10
    rules = [
        {"record": f"query{number}", "expr": filled_in(query)}
        for number, query in enumerate(queries)
    ]
    as_rules = tmp_path / "dashboard.rules.json"  # JSON is YAML
    as_rules.write_text(json.dumps({"groups": [{"name": "dashboard", "rules": rules}]}))
    checked(promtool, "check", "rules", as_rules)


def panels() -> list[dict[str, Any]]:
    shown: list[dict[str, Any]] = json.loads(DASHBOARD.read_text())["panels"]
    return shown


def filled_in(query: str) -> str:
    """As Grafana asks it."""
    return query.replace("$__rate_interval", "5m").replace("$instance", ".*")


def test_rules_and_dashboard_ask_for_metrics_that_members_have(tmp_path: Path) -> None:
    exported = set(re.findall(r"^(tidings_\w+)", metrics_of_a_member(tmp_path), re.MULTILINE))
    asked = {
        name
        for text in (RULES.read_text(), json.dumps(panels()))
        for name in re.findall(r"\btidings_\w+", text)
    }
    assert asked <= exported, asked - exported
    assert len(asked) >= 10
    ids = [panel["id"] for panel in panels()]
    assert len(ids) == len(set(ids))


def metrics_of_a_member(folder: Path) -> str:
    async def scenario() -> str:
        async with joined(group_file(folder, 2, tls=True)) as groups:
            await linked(groups)
            await (await groups["p1"].broadcast(b"once")).stable()
            groups["p1"]._member.transport.refused["name"] += 1
            return generate_latest(Metrics(groups["p1"]._member).registry).decode()

    return str(go(scenario()))


SERIES = {
    "a member that is down": (
        [('up{job="tidings", instance="p1"}', "0x10")],
        "TidingsMemberDown",
        True,
    ),
    "one that is up": ([('up{job="tidings", instance="p1"}', "1x10")], "TidingsMemberDown", False),
    "alone of three": (
        [('tidings_link_up{instance="p1", peer="p2"}', "0x10"),
         ('tidings_link_up{instance="p1", peer="p3"}', "0x10")],
        "TidingsNoQuorum",
        True,
    ),
    "two of three": (
        [('tidings_link_up{instance="p1", peer="p2"}', "1x10"),
         ('tidings_link_up{instance="p1", peer="p3"}', "0x10")],
        "TidingsNoQuorum",
        False,
    ),
    "two of four": (
        [('tidings_link_up{instance="p1", peer="p2"}', "1x10"),
         ('tidings_link_up{instance="p1", peer="p3"}', "0x10"),
         ('tidings_link_up{instance="p1", peer="p4"}', "0x10")],
        "TidingsNoQuorum",
        False,
    ),
    "waiting without a delivery": (
        [('tidings_waiting{instance="p1"}', "5x10"), ('tidings_stuck{instance="p1"}', "1x10")],
        "TidingsStuck",
        True,
    ),
    "waiting while others are delivered": (
        [('tidings_waiting{instance="p1"}', "5x10"), ('tidings_stuck{instance="p1"}', "0x10")],
        "TidingsStuck",
        False,
    ),
    "a member that is not ready": (
        [('tidings_ready{instance="p1"}', "0x10")],
        "TidingsNotReady",
        True,
    ),
    "a member that is ready again": (
        [('tidings_ready{instance="p1"}', "0x3 1x7")],
        "TidingsNotReady",
        False,
    ),
}  # fmt: skip


def test_alarms_go_off_when_they_should_and_only_then(tmp_path: Path) -> None:
    promtool = tool("promtool", "promtool")
    names = re.findall(r"^ +- alert: (\w+)$", RULES.read_text(), re.MULTILINE)
    assert {alert for _, alert, _ in SERIES.values()} <= set(names)
    (rules,) = loaded(RULES)
    details = {one["alert"]: one for one in rules["groups"][0]["rules"]}
    cases = [
        {
            "name": name,
            "interval": "1m",
            "input_series": [{"series": one, "values": values} for one, values in series],
            "alert_rule_test": [
                {
                    "eval_time": "5m",
                    "alertname": alert,
                    "exp_alerts": [expected(details[alert], series[0][1])] if goes_off else [],
                }
            ],
        }
        for name, (series, alert, goes_off) in SERIES.items()
    ]
    test = tmp_path / "alarms.json"
    test.write_text(json.dumps({"rule_files": [str(RULES)], "tests": cases}))
    checked(promtool, "test", "rules", test)


def expected(rule: dict[str, Any], values: str) -> dict[str, Any]:
    """The alarm as promtool compares it: labels and words, filled in."""
    labels = {"instance": "p1"} | rule["labels"]
    if "up{" in rule["expr"]:
        labels["job"] = "tidings"
    number = values.split("x")[0]
    words = {
        key: text.replace("{{ $labels.instance }}", "p1").replace("{{ $value }}", number)
        for key, text in rule["annotations"].items()
    }
    return {"exp_labels": labels, "exp_annotations": words}


# --- by running the commands that it contains


@contextmanager
def answering(status: int) -> Iterator[str]:
    """A member's health, on a port of its own."""

    class Health(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(status if self.path in ("/healthz", "/readyz") else 404)
            self.end_headers()

        def log_message(self, *words: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Health)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield str(server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def probes() -> dict[str, list[str]]:
    """Every command that asks for health, by where it stands."""
    (line,) = re.findall(r"^    CMD (\[.*\])$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    text = KUBERNETES.read_text()
    asked = re.findall(r"- (import urllib.*)", text)
    assert len(asked) == 2
    return {"Dockerfile": json.loads(line)} | {
        f"{KUBERNETES.name} {number}": ["python3", "-c", words]
        for number, words in enumerate(asked)
    }


def test_the_probes_know_a_healthy_member_from_another() -> None:
    for where, (python, *words) in probes().items():
        assert python == "python3"
        assert PORT in words[-1]

        def asks(port: str, words: list[str] = words) -> bool:
            command = [sys.executable, *(word.replace(PORT, port) for word in words)]
            return subprocess.run(command, capture_output=True).returncode == 0

        with answering(200) as port:
            assert asks(port), where
        assert not asks(port), f"{where}: nobody is there"
    with answering(503) as port:
        assert not asks(port)


def made(folder: Path, *names: str) -> None:
    members = [
        f"{name}=127.0.0.1:{port}" for name, port in zip(names, free_ports(len(names)), strict=True)
    ]
    ended = subprocess.run([TIDINGS, "group", *members], cwd=folder, capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


def setting(name: str) -> str:
    (value,) = re.findall(rf"^{name}=(.*)$", UNIT.read_text(), re.MULTILINE)
    return str(value)


def started_by_the_unit() -> list[str]:
    words = shlex.split(setting("ExecStart"))
    assert words[0] == "/opt/tidings/bin/tidings"
    return [TIDINGS, *words[1:]]


def started_by_compose() -> list[str]:
    (words,) = re.findall(r"^  command: \[(.*)\]$", COMPOSE.read_text(), re.MULTILINE)
    return [TIDINGS, "node", *words.split(", ")]


def started_by_kubernetes(**variables: str) -> list[str]:
    (words,) = re.findall(r"args:\n((?: +- \S+\n)+) +env: \*who$", KUBERNETES.read_text(), re.M)
    for name, value in variables.items():
        words = words.replace(f"$({name})", value)
    return [TIDINGS, "node", *re.findall(r"- (\S+)", words)]


def test_all_ways_start_a_member_alike() -> None:
    unit = [word for word in started_by_the_unit() if word not in ("--group", "group.toml")]
    assert started_by_compose() == unit
    assert started_by_kubernetes()[: len(unit)] == unit
    assert f"--metrics={PORT}" in unit, "every member has what the probes ask, in the file or not"


def on_a_free_port(words: list[str]) -> list[str]:
    """Members of one machine share its ports."""
    (port,) = free_ports(1)
    return [word.replace(PORT, str(port)) for word in words]


def test_the_unit_need_not_be_edited_for_a_newcomer(
    tmp_path: Path, monkeypatch: Any, tidings: Any
) -> None:
    assert setting("EnvironmentFile") == f"-{setting('WorkingDirectory')}/environment"
    (name, address) = re.findall(r"^# (TIDINGS_\w+)=(\S+)$", UNIT.read_text(), re.MULTILINE)[0]
    monkeypatch.setenv(name, address)
    group_file(tmp_path, 1)
    answer = tidings("node", "p1")
    assert answer.status == 64
    assert answer.err.endswith(f"the group file says, not at {address}\n"), "it took the address"


def machines(folder: Path, *names: str) -> dict[str, Path]:
    """By member, a folder with the group file and its own certificate, as on machines of theirs."""
    made(folder, *names)
    for name in names:
        shutil.copytree(folder / "certs" / name, folder / name / "certs" / name)
        shutil.copy(folder / "group.toml", folder / name)
    return {name: folder / name for name in names}


def test_members_started_by_their_command_survive_a_kill(tmp_path: Path) -> None:
    start = started_by_the_unit()
    folders = machines(tmp_path, "p1", "p2", "p3")

    async def scene() -> None:
        async with AsyncExitStack() as stack:
            members = {
                name: await stack.enter_async_context(running(folder, *on_a_free_port(start)))
                for name, folder in folders.items()
            }
            members["p1"].type("first")
            await until(lambda: all(heard(one, "first") for one in members.values()))
            members["p3"].process.send_signal(signal.SIGKILL)
            await members["p3"].ends()
            members["p1"].type("second")
            await until(lambda: heard(members["p2"], "second"))
            start_again = on_a_free_port(start)
            again = await stack.enter_async_context(running(folders["p3"], *start_again))
            await until(lambda: heard(again, "second"))
            for one in (members["p1"], members["p2"], again):
                one.process.send_signal(signal.SIGTERM)
                assert await one.ends() == 0

    go(scene())


def heard(member: Any, text: str) -> bool:
    return any(json.loads(line)["text"] == text for line in member.out)


def secret_of(folder: Path) -> dict[str, bytes]:
    script = DEPLOY / "kubernetes" / "secret.sh"
    printed = subprocess.run(["sh", script], cwd=folder, capture_output=True, text=True)
    assert (printed.returncode, printed.stderr) == (0, "")
    found = re.findall(r"^  ([\w.-]+): (\S+)$", printed.stdout, re.MULTILINE)
    return {name: base64.b64decode(value) for name, value in found if name != "name"}


def test_the_secret_and_the_first_container_give_a_pod_its_own_and_nothing_else(
    tmp_path: Path,
) -> None:
    pods = ("tidings-0", "tidings-1", "tidings-2")
    made(tmp_path, *pods)
    address = str(read_config(tmp_path / "group.toml").addresses["tidings-1"])
    (init,) = re.findall(r"- \|\n((?: {14}.*\n)+)", KUBERNETES.read_text())
    secret, state = tmp_path / "secret", tmp_path / "state"
    secret.mkdir()
    state.mkdir()
    for member in (
        "tidings-1",
        "tidings-1+1",
    ):  # then its volume is lost
        if member not in pods:
            checked(TIDINGS, "certs", "issue", member, "--newcomer", "--group", tmp_path / FILE)
        data = secret_of(tmp_path)
        assert {*data} == {FILE, *(f"{pod}.tar" for pod in pods)}
        for name, mounted in ((FILE, FILE), ("tidings-1.tar", "certs.tar")):
            (secret / mounted).write_bytes(data[name])
        for _ in range(2):  # a second start, with everything there
            words = ["/bin/sh", "-euc", init.replace("/secret/", f"{secret}/")]
            done = subprocess.run(words, cwd=state, capture_output=True, text=True)
            assert (done.returncode, done.stderr) == (0, "")
        assert [one.name for one in (state / "certs").iterdir()] == [member]
        assert (state / "certs" / member / "key.pem").stat().st_mode & 0o077 == 0
        assert read_config(state / FILE).members == pods

        async def scene(member: str = member) -> None:
            words = on_a_free_port(started_by_kubernetes())
            words[-1] = address
            async with running(state, *words) as started:
                await until(lambda: any('"joined"' in line for line in started.err + started.out))
                assert any(f'"{member}"' in line for line in started.err), started.err

        go(scene())


def test_the_group_of_the_manifests_is_what_its_command_makes(tmp_path: Path) -> None:
    """The command in secret.sh and in compose.yaml: names, addresses and the port of the probes."""
    lines = (DEPLOY / "kubernetes" / "secret.sh").read_text().replace("#", "")
    at, group = re.findall(r"^ +(at=\S+|tidings group .*)$", lines, re.MULTILINE)
    (compose,) = re.findall(r"^# +(tidings group .*)$", COMPOSE.read_text(), re.MULTILINE)
    for number, command in enumerate((f"{at}\n{group}", compose)):
        folder = tmp_path / str(number)
        folder.mkdir()
        shell = command.replace("tidings group", f"{shlex.quote(TIDINGS)} group")
        done = subprocess.run(["sh", "-euc", shell], cwd=folder, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        config = read_config(folder / "group.toml")
        assert {str(one) for one in config.metrics.values()} == {f"127.0.0.1:{PORT}"}
        assert len(config.members) == 3


def test_the_guide_names_what_is_there_and_the_groups_that_the_files_expect() -> None:
    guide = (DEPLOY / "README.md").read_text()
    for name in re.findall(r"[ `](\b(?:systemd|kubernetes|prometheus|grafana)/[\w@.-]+\w)", guide):
        assert (DEPLOY / name).exists(), name
    files = [(DEPLOY / "kubernetes" / "secret.sh").read_text(), COMPOSE.read_text()]
    for text in files:
        for line in re.findall(
            r"^# +((?:tidings group|at=|chown|docker compose up).*)$", text, re.M
        ):
            assert f"\n{line}\n" in guide, line
    build = re.findall(r"^# +(make wheel .*)$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert [line in guide for line in build] == [True]


def test_every_command_of_the_guide_is_one_that_tidings_has() -> None:
    guide = (DEPLOY / "README.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```", guide, re.DOTALL | re.MULTILINE)
    used = {
        command
        for block in blocks
        for command in re.findall(r"\btidings ((?:group|members|certs|node)(?: [a-z]+)?)\b", block)
    }
    assert {"members add", "members replace", "certs issue"} <= used
    for command in sorted(used):
        verb = command.split()[0]
        known = verb == "members" or f" {verb} " in checked(TIDINGS, "--help")
        assert known, command
