"""How much of a packet is texts, seen without decoding the rest of it.

Texts are cheap: they are copied as they are. Everything else becomes objects, and a megabyte of
ids keeps a member busy for a tenth of a second. An outline of a packet is the same packet with
everything in it left as bytes, so that the decoder only walks over it.
"""

from collections.abc import Callable
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin

import msgspec
from msgspec import NODEFAULT, Raw

TextsIn = Callable[[Any], int]
"""How many bytes of texts there are in an outlined struct."""


def outlined(kind: type[msgspec.Struct]) -> tuple[type[msgspec.Struct], TextsIn]:
    """A struct that reads the same bytes and decodes none of them, and what of it is texts."""
    fields: list[tuple[str, Any, Any]] = []
    counts: list[tuple[str, TextsIn]] = []
    for field in msgspec.structs.fields(kind):
        shape, texts_in = _of(field.type)
        fields.append((field.name, shape, NODEFAULT if field.required else None))
        if texts_in is not None:
            counts.append((field.name, texts_in))

    def all_texts_in(one: Any) -> int:
        return sum([texts_in(getattr(one, name)) for name, texts_in in counts])

    tag = kind.__struct_config__.tag
    made = msgspec.defstruct(kind.__name__, fields, array_like=True, tag=tag, gc=False)
    return made, all_texts_in


def _of(hint: Any) -> tuple[Any, TextsIn | None]:
    plain = get_args(hint)[0] if hasattr(hint, "__metadata__") else hint
    if plain is bytes or plain == tuple[bytes, ...]:
        return Raw, lambda raw: memoryview(raw).nbytes
    if isinstance(plain, type) and issubclass(plain, msgspec.Struct):
        return outlined(plain)
    if isinstance(plain, UnionType):
        return _any_of(get_args(plain))
    if get_origin(plain) is tuple and get_args(plain)[1:] == (...,):
        shape, texts_in = _of(get_args(plain)[0])
        if texts_in is not None and shape is not Raw:
            marks = getattr(hint, "__metadata__", ("unmarked",))
            many = Annotated[(tuple[shape, ...], *marks)]  # type: ignore[valid-type]
            return many, lambda items: sum([texts_in(item) for item in items])
    return Raw, None


def _any_of(kinds: tuple[Any, ...]) -> tuple[Any, TextsIn | None]:
    """A packet in a packet: their tags tell them apart."""
    if not all(isinstance(one, type) and issubclass(one, msgspec.Struct) for one in kinds):
        return Raw, None
    shapes = dict(map(outlined, kinds))
    return Union[tuple(shapes)], lambda one: shapes[type(one)](one)  # noqa: UP007
