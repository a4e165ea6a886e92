"""The plan of a campaign: a TOML file, each mistake in it named with its line.

    seeds = 5
    sizes = [3, 5]
    algorithms = ["majority-relay", "frontier mode=origin"]
    flawed = ["flawed/hasty"]

    [workloads.steady]
    broadcasts = 20

    [faults.none]

    [faults.crashes]
    crashes = "minority"

Every algorithm meets every size, every load and every fault, each with so many seeds. Those that
are meant to fail are listed apart and run in small groups only: some of them never come to rest.
The first load and the first fault plan are those whose costs are drawn.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import product
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from tidings.compare import Contender, contender_of
from tidings.core import DataError, UsageError, quorum
from tidings.core.toml_file import TomlFile, TomlTable, line_of
from tidings.guests import is_file
from tidings.protocols import PROTOCOLS
from tidings.simulator import Links, Plan
from tidings.simulator.script import protocol_of

MOST_SEEDS = 100_000
MOST_CELLS = 100_000
MOST_RUNS = 10_000_000
"""Of all cells: their tables have to fit in memory."""
MOST = 1e9
"""Of any number: as milliseconds, eleven days."""
LARGEST_FLAWED = 5
"""Forms as written may send without end; larger groups only take longer to show it."""

T = TypeVar("T")


class Load(TomlTable, frozen=True):
    """Who says how much, and when; as in the ``Plan`` of a run."""

    broadcasts: int
    gap_ms_mean: float = 5.0
    burst: int = 1
    replies: float = 0.0
    delay_ms_min: float = 1.0
    delay_ms_max: float = 20.0
    """Equal ones make the delays of a run whole numbers, to be compared with theory."""
    sample_ms: float = 0.0
    """How often it is noted how much each process keeps; 0: at the end only."""
    sizes: tuple[int, ...] = ()
    """In groups of which sizes; empty for all."""
    faults: tuple[str, ...] = ()
    """Under which fault plans; empty for all."""


class Faults(TomlTable, frozen=True):
    """What goes wrong; as in the ``Plan`` of a run."""

    only: tuple[str, ...] = ()
    """The protocols that can bear it; empty for all."""
    crashes: int | Literal["minority"] = 0
    mid_broadcast: float = 0.5
    partitions: int = 0
    partition_ms: float = 40.0
    duplicated: float = 0.0
    lost: float = 0.0
    links: Links = "retrying"
    slow: int = 0
    slow_factor: float = 10.0
    restarts: int = 0
    joiners: int = 0
    changes: int = 0
    rivals: float = 0.3


class Budget(TomlTable, frozen=True):
    """When a run is given up."""

    packets: int = 200_000
    """Or choices: whatever comes first."""
    seconds: float = 60.0
    """Of wall time."""
    memory_mb: int = 2_000
    """More than its worker has already; only where Linux counts it."""


class _Given(TomlTable, frozen=True):
    """A plan as it stands in the file: its tables are read one by one."""

    seeds: int
    sizes: tuple[int, ...]
    algorithms: tuple[str, ...]
    workloads: dict[str, Any]
    faults: dict[str, Any]
    flawed: tuple[str, ...] = ()
    budget: Budget = Budget()


class Campaign(_Given, frozen=True):
    """A plan that has been checked."""

    workloads: dict[str, Load]
    faults: dict[str, Faults]
    source: str = ""
    """The file of the plan, if it names files of one's own from there."""

    @property
    def entries(self) -> Iterator[tuple[Contender, bool]]:
        """Every algorithm with its options, and whether it is meant to fail; none is loaded.

        They are called as in the plan: the same plan elsewhere has the same cells.
        """
        for names, is_flawed in ((self.algorithms, False), (self.flawed, True)):
            yield from ((Contender(*protocol_of(words)), is_flawed) for words in names)

    @property
    def own_files(self) -> list[str]:
        """Where the algorithms are that do not come with the package."""
        names = [self.located(one.protocol) for one, _ in self.entries if is_file(one.protocol)]
        return sorted({name if name.endswith(".py") else name.rpartition(":")[0] for name in names})

    def located(self, words: str) -> str:
        """A file of one's own under its whole path, which workers need; others as they are."""
        return str(Path(self.source).parent / words) if is_relative(words) else words

    def is_wanted(self, contender: Contender, size: int, workload: str, faults: str) -> bool:
        """Whether the plan has such a cell: not everything goes with everything."""
        load, only = self.workloads[workload], self.faults[faults].only
        return (
            (not only or contender.protocol in only)
            and (not load.sizes or size in load.sizes)
            and (not load.faults or faults in load.faults)
        )

    def plan_for(self, contender: Contender, size: int, workload: str, faults: str) -> Plan:
        """What a run of one cell is made of."""
        load = msgspec.structs.asdict(self.workloads[workload])
        wrong = msgspec.structs.asdict(self.faults[faults])
        del load["sizes"], load["faults"], wrong["only"]
        if wrong["crashes"] == "minority":
            wrong["crashes"] = quorum(size) - 1
        return Plan(
            protocol=self.located(contender.protocol),
            options=contender.options,
            processes=size,
            budget=self.budget.packets,
            **load,
            **wrong,
        )


def is_relative(words: str) -> bool:
    """Whether it is a file of one's own, with options or not, named from where the plan is."""
    try:
        protocol, _ = protocol_of(words)
    except UsageError:
        return False
    return is_file(protocol) and not Path(protocol).is_absolute()


def default_plan() -> Path:
    """The plan that comes with the package."""
    return Path(str(files("tidings.campaign") / "default.toml"))


def read_plan(path: Path, seeds: int | None = None) -> Campaign:
    """The plan in a file, or DataError for the first mistake; ``seeds`` counts more than it."""
    file = TomlFile(path)
    given = msgspec.structs.asdict(file.as_a(_Given))
    names_files = any(map(is_relative, (*given["algorithms"], *given["flawed"])))
    read = {
        "workloads": _tables(file, "workloads", given["workloads"], Load),
        "faults": _tables(file, "faults", given["faults"], Faults),
        "source": str(path.resolve()) if names_files else "",
    }
    campaign = with_seeds(Campaign(**given | read), seeds)
    for keys, item, fault in _mistakes(campaign):
        raise _error(file, keys, item, fault)
    return campaign


def with_seeds(campaign: Campaign, seeds: int | None) -> Campaign:
    """Another number of them, if one is asked for."""
    if seeds is None:
        return campaign
    if not 1 <= seeds <= MOST_SEEDS:
        raise UsageError(f"--seeds takes 1 to {MOST_SEEDS:,}")
    return msgspec.structs.replace(campaign, seeds=seeds)


def _tables(
    file: TomlFile, name: str, given: dict[str, dict[str, Any]], kind: type[T]
) -> dict[str, T]:
    return {key: file.converted(table, kind, within=[name, key]) for key, table in given.items()}


def _error(file: TomlFile, keys: Sequence[str], item: str, fault: str) -> DataError:
    """A mistake in an item of a list is on the line of that item."""
    line = line_of(file.text, keys)
    if item:
        following = enumerate(file.text.splitlines()[line - 1 :], start=line)
        quoted = (f'"{item}"', f"'{item}'")
        line = next((n for n, words in following if any(q in words for q in quoted)), line)
    return DataError(f"{file.path}:{line}: {'.'.join(keys)}: {fault}")


Mistake = tuple[Sequence[str], str, str]
"""Under which keys, in which item of a list if any, and what."""


def _mistakes(campaign: Campaign) -> Iterator[Mistake]:
    if not 1 <= campaign.seeds <= MOST_SEEDS:
        yield ["seeds"], "", f"1 to {MOST_SEEDS:,} seeds"
    needed = ("sizes", "algorithms", "workloads", "faults")
    yield from (([what], "", "at least one") for what in needed if not getattr(campaign, what))
    if len(campaign.sizes) * len(campaign.workloads) * len(campaign.faults) > MOST_CELLS:
        yield ["sizes"], "", f"with all loads and faults these are more than {MOST_CELLS:,} cells"
    for size in [size for size, count in Counter(campaign.sizes).items() if count > 1]:
        yield ["sizes"], str(size), f"{size} is there twice"
    budget = campaign.budget
    if budget.packets < 1 or budget.seconds <= 0 or budget.memory_mb < 1:
        yield ["budget"], "", "a run needs some packets, some seconds and some memory"
    yield from _immense(campaign)
    yield from _mistakes_in_algorithms(campaign)
    yield from _mistakes_in_loads_and_faults(campaign)


def _immense(campaign: Campaign) -> Iterator[Mistake]:
    """TOML has infinities, but no run, and no clock that counts nanoseconds, can use them."""
    tables: list[tuple[list[str], TomlTable]] = [
        *((["workloads", name], load) for name, load in campaign.workloads.items()),
        *((["faults", name], faults) for name, faults in campaign.faults.items()),
        (["budget"], campaign.budget),
    ]
    for keys, table in tables:
        for field, value in msgspec.structs.asdict(table).items():
            if isinstance(value, float) and not abs(value) <= MOST:
                yield [*keys, field], "", f"{value:g} is no number that can be used"


def _mistakes_in_algorithms(campaign: Campaign) -> Iterator[Mistake]:
    seen: list[Contender] = []
    for what in ("algorithms", "flawed"):
        for words in getattr(campaign, what):
            try:
                contender = contender_of(campaign.located(words))
            except UsageError as fault:
                yield [what], words, str(fault)
                continue
            if contender in seen:
                yield [what], words, f"{contender} is there twice"
            seen.append(contender)
            known = PROTOCOLS.get(contender.protocol)
            if known is not None and bool(known.breaks) != (what == "flawed"):
                right = "flawed" if known.breaks else "algorithms"
                yield [what], words, f"{contender.protocol} belongs under {right}"
    if campaign.flawed and not any(size <= LARGEST_FLAWED for size in campaign.sizes):
        yield ["sizes"], "", f"flawed ones need a size of at most {LARGEST_FLAWED}"


def _mistakes_in_loads_and_faults(campaign: Campaign) -> Iterator[Mistake]:
    for name, load in campaign.workloads.items():
        for size in [size for size in load.sizes if size not in campaign.sizes]:
            yield ["workloads", name, "sizes"], "", f"{size} is none of the plan's sizes"
        for wrong in [wrong for wrong in load.faults if wrong not in campaign.faults]:
            yield ["workloads", name, "faults"], wrong, f"there are no faults {wrong!r}"
    protocols = {contender.protocol for contender, _ in campaign.entries}
    for name, faults in campaign.faults.items():
        for protocol in [one for one in faults.only if one not in {*PROTOCOLS, *protocols}]:
            yield ["faults", name, "only"], protocol, f"there is no protocol {protocol!r}"
        for protocol in sorted(protocols.intersection(PROTOCOLS, faults.only or protocols)):
            kind = PROTOCOLS[protocol].kind
            if (faults.restarts or faults.links == "lossy") and not kind.recovers:
                key = "restarts" if faults.restarts else "links"
                yield ["faults", name, key], "", f"{protocol} cannot bear that; see 'only'"
            if faults.joiners and not kind.grows:
                yield ["faults", name, "joiners"], "", f"{protocol} has a fixed group; see 'only'"
            if faults.changes and not kind.changes:
                yield ["faults", name, "changes"], "", f"{protocol} has a fixed group; see 'only'"
    for size, steady, wrong in product(campaign.sizes, campaign.workloads, campaign.faults):
        plan = campaign.plan_for(Contender("majority-relay"), size, steady, wrong)
        try:
            plan.check()
        except UsageError as fault:
            yield _guilty(plan, steady, wrong), "", str(fault)


def _guilty(plan: Plan, load: str, faults: str) -> Sequence[str]:
    """Whether the size, the load or the faults are to blame for a plan that cannot be."""

    def is_sound(*names: str) -> bool:
        changes = {name: getattr(plan, name) for name in names if hasattr(plan, name)}
        try:
            msgspec.structs.replace(Plan(), **changes).check()
        except UsageError:
            return False
        return True

    if not is_sound("processes"):
        return ["sizes"]
    return ["faults", faults] if is_sound(*Load.__struct_fields__) else ["workloads", load]
