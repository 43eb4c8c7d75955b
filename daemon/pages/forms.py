"""Forms: the query of a page's address and the fields of a form, as the request that they stand for."""

from collections.abc import Iterable
from datetime import UTC, date, datetime
from typing import Annotated, TypeVar, get_origin
from urllib.parse import parse_qsl

from pydantic import Field

from daemon.api.operations.operation import FieldsError
from daemon.api.operations.request import Request
from state.codec import LONGEST_NAME, problems_of
from state.errors import UsageError

RequestT = TypeVar("RequestT", bound=Request)

_MOST_FIELDS = 2_000
CSRF = "csrf"

# A day of UTC, as a field of a form has it; moments beyond are none that Python can reckon with.
Day = Annotated[date, Field(ge=date(1900, 1, 1), le=date(9998, 12, 31))]


def fields_of(encoded: bytes) -> list[tuple[str, str]]:
    """Return the fields of a query or a form, in their order. Raise UsageError for what is none."""
    try:
        return parse_qsl(
            encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise UsageError(f"the form is not percent-encoded UTF-8 with at most {_MOST_FIELDS} fields") from error


def request_of(model: type[RequestT], fields: Iterable[tuple[str, str]]) -> RequestT:
    """Return the request. A field that is left empty is one that was not given; a list is a field that is repeated.

    Line ends are those of a text: a browser sends CR LF. Raise FieldsError.
    """
    from pydantic import ValidationError

    several = {name for name, field in model.model_fields.items() if get_origin(field.annotation) is tuple}
    values: dict[str, object] = {}
    for name, text in fields:
        if name == CSRF or not text:
            continue
        plain = text.replace("\r\n", "\n")
        if name in several:
            values[name] = (*_texts(values.get(name)), plain)
        elif values.setdefault(name, plain) != plain:
            raise FieldsError({name[:LONGEST_NAME]: "give it once"})
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise FieldsError(dict(problems_of(error))) from None  # the error holds the values


def _texts(value: object) -> tuple[str, ...]:
    return value if isinstance(value, tuple) else ()


def begin_of(day: date | None) -> datetime | None:
    """Return the first moment of a day."""
    return datetime(day.year, day.month, day.day, tzinfo=UTC) if day else None
