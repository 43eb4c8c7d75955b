"""Parsing of a request from a query string, a form or a JSON body.

JSON is strict, as the OpenAPI document says: "5" is no number. A query and a form have only text.
"""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar, get_origin
from urllib.parse import parse_qsl

from daemon.api.operations.operation import FieldsError
from state.codec import LONGEST_NAME, problems_of
from state.errors import UsageError

if TYPE_CHECKING:
    from daemon.api.operations.request import Request

RequestT = TypeVar("RequestT", bound="Request")


def fields_of(encoded: bytes, most: int = 100) -> list[tuple[str, str]]:
    """Return the fields of a query or a form, in their order. Raise UsageError for anything else."""
    try:
        return parse_qsl(encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=most)
    except ValueError as error:  # and UnicodeDecodeError, which is one
        raise UsageError(f"the fields are not percent-encoded UTF-8, or more than {most}") from error


def from_query(model: type[RequestT], fields: Iterable[tuple[str, str]]) -> RequestT:
    """Return the request in a query; a list is a field that is repeated. Raise FieldsError naming the fields."""
    several = {name for name, field in model.model_fields.items() if get_origin(field.annotation) in (tuple, list)}
    values: dict[str, Any] = {}
    for name, value in fields:
        if name in several:
            values.setdefault(name, []).append(value)
        elif name in values:
            raise FieldsError({name[:LONGEST_NAME]: "give it once"})
        else:
            values[name] = value
    return validated(model, values)


def validated(model: type[RequestT], values: Mapping[str, object]) -> RequestT:
    """Return the request of these values. Raise FieldsError naming the fields."""
    from pydantic import ValidationError

    try:
        return model.model_validate(values)
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
            fields = ", ".join(model.model_fields) or "{}"
            raise UsageError("the body is no JSON object", f"send one ({fields})") from None
        raise FieldsError(dict(problems_of(error))) from None
