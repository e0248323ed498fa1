"""Routes of the HTTP API: each decodes a request, calls a use case and encodes its result."""

from oncegate.transports.http.routes import batches, claims, lanes, operator, producers, service, topics
from oncegate.transports.http.routing import RouteTable

# Routes are tried in this order: the most frequent calls come first.
TABLE = RouteTable(part.routes for part in (claims, lanes, topics, batches, service, producers, operator))
