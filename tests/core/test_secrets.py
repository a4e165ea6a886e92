"""Passwords of a source are found wherever they stand, and nothing else is taken for one."""

import pytest

from tidings.core import without_secrets


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("s3a://AKIA:se/cret@bucket/x: gone", "s3a://***@bucket/x: gone"),
        ("s3a://AKIA:se%2Fcret@bucket/*.csv", "s3a://***@bucket/*.csv"),
        ("s3a:/AKIA:secret@bucket: no such file", "s3a:/***@bucket: no such file"),
        ("from ftp://me:1234@host/x to ftp://me:5@host/y", "from ftp://***@host/x to ftp://***@host/y"),
        ("jdbc:postgresql://h/db?user=me&password=1234", "jdbc:postgresql://h/db?user=me&password=***"),
        ("https://h/x?sig=ab%2F&X-Amz-Signature=cd&n=1", "https://h/x?sig=***&X-Amz-Signature=***&n=1"),
    ],
)  # fmt: skip
def test_a_password_is_hidden(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "hdfs://host:8020/a@b/c",
        "abfss://container@account.dfs.core.windows.net/x",
        "file:///home/me@work/x",
        "/data/a:b@c/x.jsonl:4: what does '@' mean?",
        "p1 delivered p2#3 at 4:5@6",
    ],
)
def test_nothing_else_is_hidden(text: str) -> None:
    assert without_secrets(text) == text


def test_options_with_secret_names_are_hidden_by_their_values() -> None:
    options = {"kafka.ssl.keystore.password": "1234", "fs.s3a.secret.key": "abcd", "sep": ";"}
    assert without_secrets("1234; abcd; sep", options) == "***; ***; sep"
