"""One door for the audit: whatever the source is, what comes out is the folder of a trace.

A trace on this machine is opened where it lies. Everything else is laid out once, in a spool folder
that the workers see (``spark.spool``), and is gone when the audit ends:

- a DataFrame, or a table of any format, with the columns of a trace;
- a trace behind a URI;
- any log, with a mapping.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import unquote, urlsplit

from pyspark.sql import DataFrame, SparkSession

from tidings.core import DataError, EnvironmentMissing, UsageError, without_secrets
from tidings.pipeline.progress import Show, silent
from tidings.pipeline.sources.foreign import found_files, lay_out_log
from tidings.pipeline.sources.native import lay_out_rows, read_manifest, read_trace
from tidings.pipeline.sources.reading import Options, is_frame, is_uri, read_table
from tidings.pipeline.sources.unread import reading_of, secrets_kept
from tidings.pipeline.spark.session import is_here
from tidings.pipeline.spark.spool import spool_for
from tidings.trace import Manifest, read_manifests
from tidings.trace.foreign import Mapping as LogMapping
from tidings.trace.foreign import read_mapping

TIDINGS = "tidings"
KAFKA = "kafka"

Source = Path | str | DataFrame


@contextmanager
def opened(
    spark: SparkSession,
    source: Source,
    mapping: LogMapping | Path | str | None = None,
    *,
    form: str = TIDINGS,
    options: Options | None = None,
    manifest: Path | str | None = None,
    spool: Path | None = None,
    progress: Show = silent,
) -> Iterator[Path]:
    """The folder of a trace that says what the source says, as long as the block lasts."""
    options = options or {}
    if here := _on_this_machine(spark, source, mapping, form):
        yield here
        return
    if isinstance(mapping, Path | str):
        mapping = read_mapping(Path(mapping))
    name = "the DataFrame" if is_frame(source) else without_secrets(str(source))
    shared = _shared(spark, source, form, spool)
    with secrets_kept(options), spool_for(spark, shared) as folder:
        trace = folder / "trace"
        trace.mkdir()
        with reading_of(name):
            if mapping is not None:
                lay_out_log(
                    spark, source, mapping, trace, mapping.run or _stem(name),
                    form=None if form == TIDINGS else form, options=options, progress=progress,
                )  # fmt: skip
            else:
                rows, manifests = _rows(spark, source, form, options, manifest)
                lay_out_rows(spark, rows, trace, name, manifests, progress=progress)
        try:
            yield trace
        except DataError as fault:
            # Nobody knows the files that we made; their rows tell the process and the index.
            raise DataError(str(fault).replace(str(trace), name)) from None


def _stem(name: str) -> str:
    return Path(urlsplit(name).path).name.split(".")[0].replace("*", "") or "log"


def _on_this_machine(
    spark: SparkSession, source: Source, mapping: object, form: str
) -> Path | None:
    """A trace that can be read where it lies."""
    if is_frame(source) or mapping is not None or form != TIDINGS:
        return None
    name = str(source)
    if not is_uri(name):
        return Path(name)
    path = Path(unquote(urlsplit(name).path))
    return path if name.startswith("file:") and is_here(spark) and path.exists() else None


def _shared(spark: SparkSession, source: Source, form: str, spool: Path | None) -> Path:
    """A folder that the workers see."""
    if spool is not None:
        if not spool.is_dir():
            raise UsageError(f"{spool}: no such folder")
        return spool
    if is_here(spark):
        return Path()
    # A topic, or a table in a catalog, may be called like a file, and is none.
    if not is_frame(source) and form != KAFKA and _is_on_disk(str(source)):
        return Path(str(source))
    raise EnvironmentMissing(
        "the rows have to be laid out where all workers see them; name a folder that they share "
        "(--spool, see docs/pipeline.md)"
    )


def _is_on_disk(name: str) -> bool:
    try:
        return not is_uri(name) and bool(found_files([name]))
    except UsageError:
        return False


def _rows(
    spark: SparkSession,
    source: Source,
    form: str,
    options: Options,
    manifest: Path | str | None,
) -> tuple[DataFrame, Mapping[str, Manifest] | None]:
    """Rows with the columns of a trace, and the manifests if there are any."""
    if form == TIDINGS and not is_frame(source):
        return read_trace(spark, str(source), options)
    manifests = None
    if manifest is not None:
        is_elsewhere = is_uri(str(manifest))
        manifests = (
            read_manifest(spark, str(manifest))
            if is_elsewhere
            else read_manifests((Path(manifest),))
        )
    if is_frame(source):
        return source, manifests
    if form == KAFKA:
        raise UsageError("a topic of Kafka needs a mapping: what do its fields mean?")
    paths = found_files([str(source)], is_table=True)
    if form == "json":
        options = {"mode": "FAILFAST", **options}
    if form == "csv":
        options = {"mode": "FAILFAST", "header": "true", "inferSchema": "true", **options}
    return read_table(spark, paths, form, options), manifests
