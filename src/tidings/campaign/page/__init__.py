"""The page of a campaign, from its tables alone: verdicts, prices, and the runs that show them.

``found`` has the tables and what is chosen of them to be shown; each other file tells one part.
"""

from tidings.campaign.folder import Folder
from tidings.campaign.page import prices, runs, verdicts, words
from tidings.campaign.page.found import CampaignResults, status_of
from tidings.report.page import Page
from tidings.report.words import many

__all__ = ["page_of", "status_of"]


def page_of(folder: Folder, how: str = "") -> Page:
    """``how`` is the command that makes the page."""
    found = CampaignResults(folder)
    pictures = runs.pictures(found)
    cells = many(len(folder.cells), "cell")
    return Page(
        title=f"Campaign {folder.path.name}",
        answer=words.answer(found),
        value=words.value(found),
        about=f"{many(len(found.runs), 'simulated run')} in {cells}: every algorithm in groups of "
        "every size, under every load and every fault plan that it is made for, "
        f"{many(folder.campaign.seeds, 'seed')} each. Every verdict comes from the recorded events "
        "alone.",
        facts=words.facts(found),
        matrix=verdicts.matrix(found, {picture.key for picture in pictures}),
        comparison=verdicts.comparison(found),
        costs=(prices.cost_chart(found, "packets"), prices.cost_chart(found, "bytes")),
        latencies=tuple(prices.latencies(found)),
        states=tuple(prices.states(found)),
        pareto=(prices.pareto(found),),
        pictures=pictures,
        reproduce=words.reproduce(found, how),
        left_out=tuple(words.left_out(found, sum(one.is_violation for one in pictures))),
    )
