"""Request: makes the request of an operation from a program's arguments, and says which of them cannot be meant."""

from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Mapping

    from daemon.api.operations.operation import Request

RequestT = TypeVar("RequestT", bound="Request")


def made(request: type[RequestT], **fields: Any) -> RequestT:  # noqa: ANN401 - those of the request
    """Return the request with these fields, without those that are None. Raise FieldsError naming the fields."""
    from pydantic import ValidationError

    from daemon.api.operations.operation import FieldsError
    from state.codec import problems_of

    given: Mapping[str, Any] = {name: value for name, value in fields.items() if value is not None}
    try:
        return request.model_validate(given)
    except ValidationError as error:
        raise FieldsError(dict(problems_of(error))) from None  # the error holds the values
