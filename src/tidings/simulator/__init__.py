"""Where messages spread, imagined: a world, and those who choose what happens in it."""

from tidings.simulator.play import Moment, Replay, recorded, replay, schedule_of, until_quiet
from tidings.simulator.walk import Plan, walk
from tidings.simulator.world import Links, World

__all__ = [
    "Links",
    "Moment",
    "Plan",
    "Replay",
    "World",
    "recorded",
    "replay",
    "schedule_of",
    "until_quiet",
    "walk",
]
