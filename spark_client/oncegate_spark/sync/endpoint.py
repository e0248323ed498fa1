"""The namespace of a gateway that tasks of a Spark job ask, as their driver hands it to them."""

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
    """Holds what a `Gateway` is opened with. It has no connection, so that it can be pickled; each task opens its own.

    timeout_ms   for a call with all its tries
    credentials  files of the key and of certificates, at the same paths on each executor
    on_down      while the gateway is down "block" tries for `timeout_ms`, "fail" gives up at once
    """

    url: str
    namespace: str
    timeout_ms: int = TIMEOUT_MS
    credentials: Credentials = NONE
    on_down: str = BLOCK

    def check(self, verb: str) -> None:
        """Check on the driver what every task would find out otherwise; nothing is sent. `verb`: who asks, for errors.

        Raises BadOption for an address, a time or an `on_down` that cannot be used, and for a key by itself, which
        would travel with the plan of the job.
        """
        checked_timeout(self.timeout_ms)
        if self.credentials.api_key is not None:
            raise BadOption(
                f"{verb} carries no key to tasks: name its file, Credentials(api_key_file=…); nothing was sent"
            )
        try:
            GatewayAddress.of(self.url, self.credentials)
        except BadOption as error:
            if str(error).startswith(repr(self.url)):
                raise BadOption(f'gateway is {self.url!r}; give "http://gateway:8080"') from error
            raise
        check_without_rows(self.on_down)

    def open(self, writer: WriterId | None = None) -> Gateway:
        """Return a gateway of its own, which connects with its first request; the caller closes it."""
        return Gateway(
            self.url,
            self.namespace,
            timeout_ms=self.timeout_ms,
            credentials=self.credentials,
            on_down=self.on_down,
            writer=writer,
        )
