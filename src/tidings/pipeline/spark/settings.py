"""What the user has set for Spark, as far as it is known before Spark starts.

What we would set ourselves is only a default. Yet Spark prefers what a program sets to what stands
in ``spark-defaults.conf``, so we have to look there first, and at what ``spark-submit`` would be
told. Both have the names and the syntax that Spark's documentation gives them.
"""

import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pyspark

from tidings.core import EnvironmentMissing

_LINE = re.compile(r"\s*([^#!\s=:][^\s=:]*)[ \t\f]*[=: \t\f][ \t\f]*(.*?)\s*")
_OPTIONS = {
    "--master": "spark.master",
    "--driver-memory": "spark.driver.memory",
    "--driver-java-options": "spark.driver.extraJavaOptions",
    "--name": "spark.app.name",
}
_CONF = ("--conf", "-c")
_FILE = "--properties-file"
_VARIABLES = {"SPARK_DRIVER_MEMORY": "spark.driver.memory"}


def conf_folder() -> Path:
    home = os.environ.get("SPARK_HOME") or next(iter(pyspark.__path__))
    return Path(os.environ.get("SPARK_CONF_DIR") or Path(home, "conf"))


def user_settings() -> dict[str, str]:
    """By their names; the last word about each."""
    of_variables = {
        setting: os.environ[name] for name, setting in _VARIABLES.items() if os.environ.get(name)
    }
    options = dict[str, str]()
    file = conf_folder() / "spark-defaults.conf"
    for option, value in _submit_options():
        if option in _CONF:
            name, _, value = value.partition("=")
            options[name] = value
        elif option == _FILE:
            file = Path(value)
        else:
            options[_OPTIONS[option]] = value
    return of_variables | _in_file(file) | options


def _submit_options() -> Iterator[tuple[str, str]]:
    try:
        words = iter(shlex.split(os.environ.get("PYSPARK_SUBMIT_ARGS", "")))
    except ValueError as fault:
        raise EnvironmentMissing(f"PYSPARK_SUBMIT_ARGS: {fault}") from None
    for word in words:
        option, is_whole, value = word.partition("=")
        if option in (*_OPTIONS, *_CONF, _FILE):
            yield option, value if is_whole else next(words, "")


def _in_file(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(errors="replace").splitlines()
    except OSError:
        return {}
    found = (_LINE.fullmatch(line) for line in lines)
    return {setting[1]: setting[2] for setting in found if setting}
