"""Objects in a bucket that speaks S3, through obstore.

A request is tried again for 20 seconds, and each try has nine. Without keys nothing is asked: a machine of a cloud
would give out its own rights to who asks it.
"""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from state.errors import ConfigError, NotFoundError, StorageError, UnreachableError
from state.stores.generations.objects import StoredObject

if TYPE_CHECKING:
    from obstore.store import ClientConfig, RetryConfig, S3Config, S3Store

_KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY")
_LONGEST_REASON = 300
_DELETED_AT_ONCE = 1_000
_CLIENT: "ClientConfig" = {"timeout": timedelta(seconds=9), "connect_timeout": timedelta(seconds=3)}
_RETRIES: "RetryConfig" = {
    "max_retries": 5,
    "retry_timeout": timedelta(seconds=20),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=2), "base": 2},
}


class S3Objects:
    """The objects of a bucket below a prefix. Raises ConfigError without keys, or for an endpoint that is none."""

    def __init__(self, bucket: str, prefix: str, options: Mapping[str, str]) -> None:
        missing = [name for name in _KEYS if not options.get(name)]
        if missing:
            raise ConfigError(f"s3://{bucket}: {' and '.join(missing)} not set", "set what the bucket is opened by")
        self._name = f"s3://{bucket}/{prefix}".rstrip("/")
        self._store = _opened(bucket, prefix, options)

    def put(self, key: str, content: bytes) -> None:
        import obstore

        with self._errors(key):
            obstore.put(self._store, key, content)

    def get(self, key: str) -> bytes:
        import obstore

        with self._errors(key):
            return bytes(obstore.get(self._store, key).bytes())

    def delete(self, keys: Iterable[str]) -> None:
        import obstore

        todo = list(keys)
        for start in range(0, len(todo), _DELETED_AT_ONCE):
            with self._errors(todo[start]):
                obstore.delete(self._store, todo[start : start + _DELETED_AT_ONCE])

    def list(self, prefix: str) -> Iterator[StoredObject]:
        import obstore

        with self._errors(prefix):
            for rows in obstore.list(self._store, prefix):
                for row in rows:
                    yield StoredObject(row["path"], row["size"], row["last_modified"])

    @contextmanager
    def _errors(self, key: str) -> Iterator[None]:
        from obstore import exceptions

        try:
            yield
        except FileNotFoundError as error:
            if "NoSuchBucket" in str(error):
                raise StorageError(f"{self._name}: there is no such bucket", "make it, or name another") from None
            raise NotFoundError(f"there is no object {key} in {self._name}") from None
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as error:
            raise StorageError(
                f"{self._name}: {key} was refused ({_reason(error)})",
                "give the key of AWS_ACCESS_KEY_ID the rights to read, write, list and delete there",
            ) from None
        except exceptions.BaseError as error:
            reason = _reason(error)
            if "non-2xx status code: 4" in reason:
                raise StorageError(f"{self._name}: {key}: {reason}", "check 'fleet.objects'") from None
            raise UnreachableError(f"{self._name} cannot be reached ({reason})", "try again soon") from None


def _opened(bucket: str, prefix: str, options: Mapping[str, str]) -> "S3Store":
    from obstore.exceptions import BaseError
    from obstore.store import S3Store

    endpoint = options.get("AWS_ENDPOINT_URL", "")
    if endpoint and (urlsplit(endpoint).scheme not in {"http", "https"} or not urlsplit(endpoint).hostname):
        raise ConfigError(f"AWS_ENDPOINT_URL {endpoint[:200]!r} is no address", "write http(s)://HOST:PORT")
    config: S3Config = {
        "access_key_id": options[_KEYS[0]],
        "secret_access_key": options[_KEYS[1]],
        "region": options.get("AWS_REGION") or options.get("AWS_DEFAULT_REGION") or "us-east-1",
    }
    if endpoint:
        config["endpoint"] = endpoint
    if token := options.get("AWS_SESSION_TOKEN"):
        config["session_token"] = token
    client: ClientConfig = {**_CLIENT, "allow_http": endpoint.startswith("http://")}
    try:
        return S3Store(bucket, prefix=prefix or None, config=config, client_options=client, retry_config=_RETRIES)
    except (BaseError, ValueError) as error:
        raise ConfigError(f"s3://{bucket}: {_reason(error)}", "check 'fleet.objects' and AWS_ENDPOINT_URL") from None


def _reason(error: Exception) -> str:
    """Return the first lines of what the library says; the rest is for its makers."""
    return " ".join(str(error).partition("\n\nDebug")[0].split())[:_LONGEST_REASON]
