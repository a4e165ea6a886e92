"""A group of Tidings on loopback: this revision, or the sources of another."""

import io
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from load.crew import Crew, Program, running
from tidings.node.authority import certify
from tidings.node.config import read_config
from tidings.testkit.fleet import free_ports

ROOT = Path(__file__).parents[2]
PROGRAM = Path(__file__).with_name("tidings_member.py")


def group_file(members: int, durable: bool, settings: Sequence[str]) -> str:
    """Defaults wherever a group does not have to differ."""
    ports = enumerate(free_ports(members), start=1)
    return "\n".join(
        [
            'name = "bench"',
            f"durable = {str(durable).lower()}",
            *settings,
            "[members]",
            *(f'p{number} = "127.0.0.1:{port}"' for number, port in ports),
        ]
    )


@contextmanager
def tidings_group(
    folder: Path,
    members: int = 3,
    *,
    durable: bool,
    settings: Sequence[str] = (),
    doors: str = "plain",
    profile: str = "-",
    loop: str = "asyncio",
    tls: bool = False,
    sources: Path = ROOT / "src",
) -> Iterator[Crew]:
    path = folder / "group.toml"
    path.write_text(group_file(members, durable, [*_usual(sources, tls, settings), *settings]))
    if tls:
        certify(read_config(path), folder / "authority")
    rest = [str(members), doors, profile, loop]
    with ExitStack() as ending:
        programs = [
            ending.enter_context(
                running(
                    Program(
                        f"p{place + 1}",
                        [sys.executable, str(PROGRAM), str(folder), str(place), *rest],
                        folder,
                        env={"PYTHONPATH": str(sources)},
                    )
                )
            )
            for place in range(members)
        ]
        for program in programs:
            (used,) = program.hear("tidings")
            assert used == str(sources), f"{used} runs instead of {sources}"
            program.hear("ready")
        yield Crew(programs)


def _usual(sources: Path, tls: bool, settings: Sequence[str]) -> Iterator[str]:
    """What ``tidings group`` writes, as far as an older revision has it."""
    if (sources / "tidings/node/identity.py").exists():
        yield 'tls.folder = "certs"' if tls else "tls.plain = true"
    is_chosen = any(line.startswith("protocol") for line in settings)
    if (sources / "tidings/node/membership.py").exists() and not is_chosen:
        yield 'protocol = "views"'


def sources_of(revision: str, folder: Path) -> Path:
    """The sources of another revision, unpacked here: nothing to undo in the repository."""
    command = ["git", "archive", "--format=tar", revision, "src"]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"
