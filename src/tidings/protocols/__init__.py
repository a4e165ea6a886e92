"""How messages spread: one algorithm per file, its theory on top."""

from tidings.protocols.registry import PROTOCOLS, Algorithm, Factory, factory

__all__ = ["PROTOCOLS", "Algorithm", "Factory", "factory"]
