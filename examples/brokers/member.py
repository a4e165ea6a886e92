"""One member of the group: an OS process that can be killed.

It publishes what it is told to on standard input, and writes down in its log what it published and
what it was handed, each line before or right as it happens. ``broker_runs.py`` drives it.
"""

import json
import os
import select
import sys
import time
from pathlib import Path

from links import Link
from mqtt import Mqtt
from resp import PubSub, Streams

RETRY_S = 0.05


def link_to(kind: str, port: int, name: str) -> Link:
    match kind:
        case "pubsub":
            return PubSub(port, name)
        case "streams":
            return Streams(port, name)
    return Mqtt(port, name, quality=int(kind.removeprefix("qos")))


class Member:
    def __init__(self, link: Link, log: Path, run: str) -> None:
        self.link = link
        self.run = run
        # Unbuffered: what has been written survives SIGKILL.
        self.log = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        self.is_away = False
        self.is_announced = False
        self.stalls = ""

    def note(self, event: str, message: bytes = b"") -> None:
        name, _, text = message.decode().partition(" ")
        about = {"id": name, "text": text} if message else {}
        row = {"run": self.run, "at_us": time.time_ns() // 1000, "event": event, **about}
        os.write(self.log, json.dumps(row).encode() + b"\n")

    def live(self) -> None:
        self.connect()
        while True:
            broker = [] if self.is_away else [self.link.socket()]
            ready, _, _ = select.select([sys.stdin.fileno(), *broker], [], [])
            try:
                if sys.stdin.fileno() in ready and not self.obey(sys.stdin.readline()):
                    return
                if broker and broker[0] in ready and not self.is_away:
                    self.listen()
            except OSError:
                self.link.close()
                self.connect()

    def connect(self) -> None:
        self.is_announced = False
        while True:
            try:
                self.link.connect()
                break
            except OSError:
                time.sleep(RETRY_S)
        self.announce()

    def announce(self) -> None:
        if self.link.is_ready and not self.is_announced:
            self.is_announced = True
            self.note("connected")

    def listen(self) -> None:
        for message, acknowledge in self.link.receive():
            self.stall("before")
            self.note("received", message)
            self.stall("after")
            acknowledge()
        self.announce()

    def stall(self, moment: str) -> None:
        """Hang, if told to, until somebody kills us."""
        if self.stalls == moment:
            self.note("stalled")
            select.select([], [], [])

    def obey(self, line: str) -> bool:
        command, _, rest = line.rstrip("\n").partition(" ")
        match command:
            case "publish":
                self.note("published", rest.encode())
                self.link.publish(rest.encode())
            case "stall":
                self.stalls = rest
                self.note("told")
            case "away":
                self.is_away = True
                self.link.close()
                self.note("away")
            case "back":
                self.is_away = False
                self.connect()
        return bool(command)


if __name__ == "__main__":
    kind, port, name, log, run, start = sys.argv[1:]
    member = Member(link_to(kind, int(port), name), Path(log), run)
    member.note(start)
    member.live()
