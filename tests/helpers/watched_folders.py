"""A trace folder that is judged as a streaming query would, without Spark."""

from pathlib import Path
from typing import Any

from tidings.pipeline.watching.growing import Growing, pieces_in
from tidings.pipeline.watching.running import BatchJudge, WatchOptions, read_findings


class Reading:
    """Judges whatever has come; ``restart`` is the next driver, which knows what is on disk."""

    def __init__(self, folder: Path, checkpoint: Path) -> None:
        self.options = WatchOptions(str(checkpoint), str(folder))
        self.growing = Growing(folder)
        self.offset: Any = {}
        self.batch = 0
        self.restart()

    def restart(self) -> None:
        self.judge = BatchJudge(self.options)

    def look(self, now_s: float = 0.0) -> None:
        end = self.growing.latest(self.offset, 1 << 30)
        slices = self.growing.slices(self.offset, end)
        self.judge.judge([one for part in slices for one in pieces_in(part)], self.batch, now_s)
        self.offset, self.batch = end, self.batch + 1

    def keys(self) -> list[str]:
        return [row["key"] for row in read_findings(self.options.place)]
