"""How messages spread: one algorithm per file, its theory on top."""

from tidings.protocols.registry import DEFAULT, PROTOCOLS, Algorithm, Factory, factory

__all__ = ["DEFAULT", "PROTOCOLS", "Algorithm", "Factory", "factory"]
