"""Request: the validated arguments of one call of an operation; each operation derives its own model."""

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated, Any, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, PrivateAttr, TypeAdapter, ValidationError

from daemon.api.operations.operation import FieldsError
from state.codec import problems_of
from state.errors import UsageError

RequestT = TypeVar("RequestT", bound="Request")

_DATED = re.compile(r"\d{4}-\d\d-\d\d(?:[Tt ]|$)")
_MOMENT = TypeAdapter(datetime)


def _dated(moment: object) -> object:
    """Return the moment of a text, which strict JSON would take for none after this validator.

    Refuse a bare number: pydantic would read it as seconds since 1970.
    """
    if not isinstance(moment, str):
        return moment
    try:
        if _DATED.match(moment):
            return _MOMENT.validate_python(moment)
    except ValidationError:
        pass  # the error would quote the value
    raise ValueError("it is no day or time such as 2026-03-12 or 2026-03-12T14:30Z")


Moment = Annotated[datetime, BeforeValidator(_dated)]
"""A moment; without an offset it is of the owner's clock, and a day is its midnight."""


class Request(BaseModel):
    """The arguments of an operation, one per field; callers read the fields' descriptions."""

    # Keep infinity, which pydantic would write as null, in fields that take any JSON.
    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        ser_json_inf_nan="constants",
        validate_by_name=True,
        validate_by_alias=True,
        serialize_by_alias=True,
    )
    _idempotency_key: str = PrivateAttr(default="")

    @classmethod
    def of(cls, fields: Mapping[str, Any]) -> Self:
        """Return a request with these fields, which may be written as texts. Raise FieldsError naming the invalid."""
        return _read(lambda: cls.model_validate(fields))

    @classmethod
    def of_json(cls, body: str | bytes) -> Self:
        """Return the request that a JSON object is. Raise FieldsError naming the invalid fields, and UsageError."""
        return _read(lambda: cls.model_validate_json(body, strict=True), ", ".join(cls.model_fields))

    @property
    def idempotency_key(self) -> str:
        """Return the sender's key for this call, which identifies a repetition; empty without one."""
        return self._idempotency_key

    def keyed(self, key: str) -> Self:
        """Return a copy of the request with this idempotency key."""
        named = self.model_copy()
        named._idempotency_key = key  # noqa: SLF001 - of its own class
        return named

    @property
    def given(self) -> dict[str, Any]:
        """Return the arguments by name."""
        return {name: getattr(self, name) for name in type(self).model_fields}


def _read(reading: Callable[[], RequestT], known: str = "") -> RequestT:
    try:
        return reading()
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
        if first["type"] == "json_invalid":
            raise UsageError(f"the body cannot be read: {first['msg']}", "send a JSON object in UTF-8") from None
        if not first["loc"]:
            raise UsageError("the body is no JSON object", f"send one ({known or '{}'})") from None
        raise FieldsError(dict(problems_of(error))) from None  # the cause would quote the values
