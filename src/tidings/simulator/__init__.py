"""Where messages spread, imagined: a world, and those who choose what happens in it."""

from tidings.simulator.play import PlayedStep, RunReplay, recorded, replay, schedule_of, until_quiet
from tidings.simulator.walk import Plan, walk
from tidings.simulator.world import Links, World

__all__ = [
    "Links",
    "Plan",
    "PlayedStep",
    "RunReplay",
    "World",
    "recorded",
    "replay",
    "schedule_of",
    "until_quiet",
    "walk",
]
