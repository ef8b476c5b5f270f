"""What a document becomes in JSON and in Arrow."""

import base64
import json
import math
from collections.abc import Iterable
from typing import Any

from .extras import require

# Fields of the output. What the input calls by one of these names is carried along under another.
RESERVED = ("id", "text", "entities", "model", "model_version")


def carried_names(names: Iterable[str]) -> dict[str, str]:
    """Find names in the output for the fields of the input.

    names (Iterable[str]): Names in the input.
    RETURNS (dict[str, str]): The same names, but "input_id" for "id" and so on for what is the output's own.
    """
    names = list(names)
    taken = {*RESERVED, *names}
    renamed: dict[str, str] = {}
    for name in names:
        new = name
        while name in RESERVED and new in taken:
            new = f"input_{new}"
        taken.add(new)
        renamed[name] = new
    return renamed


def to_json(value: Any) -> bytes:
    """Write a value as a line of JSON.

    value (Any): The value. Dates become ISO strings, bytes base64, NaN and infinity null, what else JSON does not know
        its string.
    RETURNS (bytes): The line, with its end.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=_to_jsonable)
    except ValueError:  # Python writes and reads NaN, but other readers would not
        value = _without_nan(value)
        text = json.dumps(value, ensure_ascii=False, default=_to_jsonable)
    try:
        return text.encode("utf8") + b"\n"
    except UnicodeEncodeError:  # half of a surrogate pair: JSON can escape it, UTF-8 cannot hold it
        return json.dumps(value, default=_to_jsonable).encode("ascii") + b"\n"


def _without_nan(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, dict):
        return {name: _without_nan(item) for name, item in value.items()}
    return [_without_nan(item) for item in value] if isinstance(value, (list, tuple)) else value


def _to_jsonable(value: Any) -> Any:
    if isinstance(value, (bytes, bytearray, memoryview)):
        return base64.b64encode(bytes(value)).decode("ascii")
    return value.isoformat() if hasattr(value, "isoformat") else str(value)


def entity_type() -> Any:
    """RETURNS (pyarrow.DataType): The type of a document's entities, a list of structs.

    RAISES (ImportError): CRF426 if pyarrow is not installed.
    """
    pa = require("pyarrow", "annotate", "Writing tables")
    offsets = [(name, pa.int32()) for name in ("start", "end", "token_start", "token_end")]
    return pa.list_(pa.struct([*offsets, ("text", pa.string()), ("label", pa.string()), ("probability", pa.float64())]))


def shard_schema(carried: Any = None) -> Any:
    """Make the schema of a Parquet shard.

    carried (pyarrow.Schema | None): The columns of a Parquet input that are carried along, by their names in the
        output. None for other inputs, whose fields become a column of JSON.
    RETURNS (pyarrow.Schema): The schema.
    """
    pa = require("pyarrow", "annotate", "Writing .parquet")
    own = [("id", pa.string()), ("text", pa.string()), ("entities", entity_type())]
    own += [("model", pa.string()), ("model_version", pa.string())]
    others = [pa.field("fields", pa.string())] if carried is None else list(carried)
    return pa.schema([*(pa.field(name, type_) for name, type_ in own), *others])
