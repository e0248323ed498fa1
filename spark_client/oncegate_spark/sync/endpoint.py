"""Address and settings of a gateway, which a Spark driver passes to its tasks."""

from dataclasses import dataclass

from oncegate_spark.credentials import NONE, Credentials
from oncegate_spark.errors import BadOption
from oncegate_spark.protocol.address import GatewayAddress, checked_timeout
from oncegate_spark.protocol.effort import TIMEOUT_MS
from oncegate_spark.protocol.names import WriterId
from oncegate_spark.protocol.outage import BLOCK, check_without_rows
from oncegate_spark.sync.gateway import Gateway


@dataclass(frozen=True)
class Endpoint:
    """Arguments of a `Gateway`. It holds no connection, so it can be pickled; each task opens its own.

    timeout_ms   for a call with its retries
    credentials  files of the key and of certificates, at the same paths on each executor
    on_down      while the gateway is down, "block" retries for `timeout_ms` and "fail" raises at once
    """

    url: str
    namespace: str
    timeout_ms: int = TIMEOUT_MS
    credentials: Credentials = NONE
    on_down: str = BLOCK

    def check(self, verb: str) -> None:
        """Raises on the driver what every task would raise otherwise; sends nothing. `verb`: names the caller in
        errors.

        Raises BadOption for an invalid address, timeout or `on_down`, and for a key passed as text, which would become
        part of the job's plan.
        """
        checked_timeout(self.timeout_ms)
        if self.credentials.api_key is not None:
            raise BadOption(
                f"{verb} does not pass a key to tasks: name its file, Credentials(api_key_file=…); nothing was sent"
            )
        try:
            GatewayAddress.of(self.url, self.credentials)
        except BadOption as error:
            if str(error).startswith(repr(self.url)):
                raise BadOption(f'gateway is {self.url!r}; write "http://gateway:8080"') from error
            raise
        check_without_rows(self.on_down)

    def open(self, writer: WriterId | None = None) -> Gateway:
        """Returns a new gateway, which connects on its first request; the caller closes it."""
        return Gateway(
            self.url,
            self.namespace,
            timeout_ms=self.timeout_ms,
            credentials=self.credentials,
            on_down=self.on_down,
            writer=writer,
        )
