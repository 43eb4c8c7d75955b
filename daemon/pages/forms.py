"""Forms: the query of a page's address and the fields of a form, as the request that they stand for."""

from collections.abc import Callable, Iterable
from datetime import UTC, date, datetime, time
from inspect import Parameter, signature
from typing import Annotated, Any, TypeVar, get_args, get_origin, get_type_hints
from urllib.parse import parse_qsl

from pydantic import Field, ValidationError, create_model

from daemon.api.operations.operation import FieldsError
from daemon.api.operations.request import Request
from state.codec import LONGEST_NAME, problems_of
from state.errors import UsageError

RequestT = TypeVar("RequestT", bound=Request)

CSRF = "csrf"
_MOST_FIELDS = 2_000
# A day of UTC, as a field of a form has it, of those that Python can reckon with.
Day = Annotated[date, Field(ge=date(1900, 1, 1), le=date(9998, 12, 31))]
Version = Annotated[int, Field(ge=1, le=10**9)]
Start = Annotated[int, Field(ge=0, le=10**9)]
Cursor = Annotated[str, Field(max_length=10_000)]


def form_of(function: Callable[..., object]) -> type[Request]:
    """Return the parameters after the first one as a model."""
    _, *parameters = signature(function).parameters.values()
    hints = get_type_hints(function, include_extras=True)
    fields: dict[str, Any] = {
        one.name: (hints[one.name], ... if one.default is Parameter.empty else one.default) for one in parameters
    }
    return create_model(function.__name__, __base__=Request, **fields)


def fields_of(encoded: bytes) -> list[tuple[str, str]]:
    """Return the fields of a query or a form, in their order. Raise UsageError for anything else."""
    try:
        return parse_qsl(
            encoded.decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=_MOST_FIELDS
        )
    except ValueError as error:
        raise UsageError(f"the form is not percent-encoded UTF-8 with at most {_MOST_FIELDS} fields") from error


def request_of(model: type[RequestT], fields: Iterable[tuple[str, str]]) -> RequestT:
    """Return the request; an empty field counts as not given, a list is a repeated field. Raise FieldsError."""
    several = {name for name, field in model.model_fields.items() if _is_list(field.annotation)}
    values: dict[str, Any] = {}
    for name, text in fields:
        if name == CSRF or not text:
            continue
        plain = text.replace("\r\n", "\n")  # a browser sends CR LF
        if name in several:
            values[name] = (*values.get(name, ()), plain)
        elif values.setdefault(name, plain) != plain:
            raise FieldsError({name[:LONGEST_NAME]: "give it once"})
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise FieldsError(dict(problems_of(error))) from None  # the error holds the values


def _is_list(kind: Any) -> bool:  # noqa: ANN401 - any annotation
    return get_origin(kind) is tuple or any(map(_is_list, get_args(kind)))


def begin_of(day: date | None) -> datetime | None:
    """Return the first moment of a day."""
    return datetime.combine(day, time(), UTC) if day else None
