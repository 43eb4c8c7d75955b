"""Parsing of an operation's request from a query string or a JSON body.

JSON is strict, as the OpenAPI document says: "5" is no number. A query has only text.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeVar, get_origin
from urllib.parse import parse_qs

from daemon.api.operations.operation import FieldsError
from state.codec import LONGEST_NAME, problems_of
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.api.operations.request import Request

RequestT = TypeVar("RequestT", bound="Request")

_MOST_FIELDS = 100


def fields_of(query: bytes) -> dict[str, list[str]]:
    """Return the fields of a query. Raise UsageError for one that is not UTF-8 or has too many."""
    try:
        text = query.decode("ascii")
        return parse_qs(text, keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS)
    except ValueError as error:  # and UnicodeDecodeError, which is one
        raise UsageError(f"the query is not percent-encoded UTF-8 with at most {_MOST_FIELDS} fields") from error


def from_query(model: type[RequestT], fields: Mapping[str, list[str]]) -> RequestT:
    """Return the request in a query; a list is a field that is repeated. Raise FieldsError naming the fields."""
    from pydantic import ValidationError

    several = {name for name, field in model.model_fields.items() if get_origin(field.annotation) in (tuple, list)}
    if repeated := [name for name, values in fields.items() if len(values) > 1 and name not in several]:
        raise FieldsError({name[:LONGEST_NAME]: "give it once" for name in repeated})
    try:
        return model.model_validate(
            {name: values if name in several else values[0] for name, values in fields.items()}
        )
    except ValidationError as error:
        raise FieldsError(dict(problems_of(error))) from None  # the error holds the values


def from_json(model: type[RequestT], body: bytes) -> RequestT:
    """Return the request in a body. Raise FieldsError naming the fields, UsageError for what is no JSON object."""
    from pydantic import ValidationError

    try:
        return model.model_validate_json(body, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise UsageError(f"the body cannot be read: {first['msg']}", "send a JSON object in UTF-8") from None
        if not first["loc"]:
            raise UsageError(
                "the body is no JSON object", f"send one ({', '.join(model.model_fields) or '{}'})"
            ) from None
        raise FieldsError(dict(problems_of(error))) from None
