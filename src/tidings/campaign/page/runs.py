"""The runs that are drawn: every violation, and one that is as it should be."""

from collections.abc import Iterator
from itertools import islice

import msgspec

from tidings.campaign import counterexamples
from tidings.campaign.page.found import CampaignResults
from tidings.report.causality import Causality
from tidings.report.explain import replay_command
from tidings.report.page import picture_of
from tidings.report.page.model import MOST_PICTURES, Picture
from tidings.report.page.pictures import can_be_drawn
from tidings.shrink import Charge
from tidings.spec import Guarantee


def pictures(found: CampaignResults) -> tuple[Picture, ...]:
    return (*islice(_violations(found), MOST_PICTURES - 1), *_good_run(found))


def _violations(found: CampaignResults) -> Iterator[Picture]:
    """Those of sound algorithms first, in case there are too many."""
    for row, run in found.counterexamples:
        causality = Causality(run)
        violations = Charge(Guarantee(row["guarantee"])).against(run)
        if violations and can_be_drawn(causality):
            folder = found.folder.shown / row["folder"]
            picture = picture_of(
                causality,
                violations[0],
                key=found.key(row),
                entry=row["algorithm"],
                replay=replay_command(violations[0], folder),
            )
            yield _with_note(picture, row["note"])


def _good_run(found: CampaignResults) -> Iterator[Picture]:
    good = counterexamples.good_run(found.folder)
    if good is not None:
        row, run = good
        yield picture_of(
            Causality(run),
            key="good",
            entry=row["algorithm"],
            title=f"A good run: {row['workload']}, faults: {row['faults']}",
            replay=row["replay"],
        )


def _with_note(picture: Picture, note: str) -> Picture:
    return msgspec.structs.replace(picture, left_out=" ".join([note, picture.left_out]).strip())
