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
    knows_tls = (sources / "tidings/node/identity.py").exists()  # an older revision has no setting
    way = ['tls.folder = "certs"' if tls else "tls.plain = true"] if knows_tls else []
    path.write_text(group_file(members, durable, [*way, *settings]))
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


def sources_of(revision: str, folder: Path) -> Path:
    """The sources of another revision, unpacked here: nothing to undo in the repository."""
    command = ["git", "archive", "--format=tar", revision, "src"]
    packed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "src"
