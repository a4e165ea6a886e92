"""Whether it did what it should: the five guarantees, from a laptop to a cluster.

The only package in the project that imports pyspark. It answers to ``spec``: the same verdicts,
the same counts, the same witnesses, for traces of any size. There are two judges that know
nothing of each other: the fast one is ``arrays``, without any Spark, and its oracle is
``queries``. ``spark`` is what both run on, ``judging`` asks either, and ``statement`` puts
their numbers into the specification's words. ``local`` asks the arrays without Spark, and
``sources`` makes a trace of whatever is not one.
"""

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidings.pipeline.judging import audit as audit
    from tidings.pipeline.judging import judge as judge
    from tidings.pipeline.judging import verdict_table as verdict_table
    from tidings.pipeline.judging import verdicts as verdicts
    from tidings.pipeline.local import audit_here as audit_here
    from tidings.pipeline.progress import Progress as Progress
    from tidings.pipeline.queries import measures as measures
    from tidings.pipeline.queries.case import Case as Case
    from tidings.pipeline.queries.case import examine as examine
    from tidings.pipeline.queries.case import violations as violations
    from tidings.pipeline.queries.measures import Overview as Overview
    from tidings.pipeline.queries.measures import overview as overview
    from tidings.pipeline.queries.measures import write_tables as write_tables
    from tidings.pipeline.sources.foreign import Ingested as Ingested
    from tidings.pipeline.sources.foreign import ingest as ingest
    from tidings.pipeline.spark.session import abandon as abandon
    from tidings.pipeline.spark.session import session as session
    from tidings.pipeline.spark.source import register as register
    from tidings.pipeline.spark.tasks import tasks_of as tasks_of
    from tidings.pipeline.statement import Audit as Audit
    from tidings.pipeline.watching.start import Watching as Watching
    from tidings.pipeline.watching.start import stream_of as stream_of
    from tidings.pipeline.watching.start import watch as watch
else:
    # On demand: whoever judges here needs no Spark, and does not wait for it.
    from tidings.core import EnvironmentMissing, with_extra

    _PLACES = {
        "judging": ("audit", "judge", "verdict_table", "verdicts"),
        "local": ("audit_here",),
        "progress": ("Progress",),
        "queries.case": ("Case", "examine", "violations"),
        "queries.measures": ("Overview", "measures", "overview", "write_tables"),
        "sources.foreign": ("Ingested", "ingest"),
        "spark.session": ("abandon", "session"),
        "spark.source": ("register",),
        "spark.tasks": ("tasks_of",),
        "statement": ("Audit",),
        "watching.start": ("Watching", "stream_of", "watch"),
    }
    _LOCAL = "tidings audit and tidings report judge without it (--local)"
    _SPARK = f"Spark is not installed; {_LOCAL}, or {with_extra('spark')}"
    _ARRAYS = f"the audit needs numpy and pyarrow; {with_extra('audit')}"
    _NEITHER = f"{_ARRAYS}; that is enough for tidings audit --local, and [spark] brings Spark too"
    _WITHOUT = {"pyspark": _SPARK, "py4j": _SPARK, "numpy": _ARRAYS, "pyarrow": _ARRAYS}

    __all__ = [name for names in _PLACES.values() for name in names]

    def __dir__():
        return sorted({*globals(), *__all__})

    def __getattr__(name):
        for place, names in _PLACES.items():
            if name in names:
                module = _imported(f"{__name__}.{place}")
                return module if name == "measures" else getattr(module, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")

    def _imported(module):
        try:
            return import_module(module)
        except ModuleNotFoundError as missing:
            package = str(missing.name).split(".")[0]
            if package not in _WITHOUT:
                raise
            words = _WITHOUT[package]
            if words == _SPARK and not (find_spec("numpy") and find_spec("pyarrow")):
                words = _NEITHER
            raise EnvironmentMissing(words) from missing
