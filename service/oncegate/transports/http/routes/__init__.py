"""HTTP's routes: each reads its request, calls a use case, and answers."""

from oncegate.transports.http.routes import batches, claims, lanes, operator, producers, service, topics
from oncegate.transports.http.routing import RouteTable

# In the order in which they are tried: those that are asked most are first.
TABLE = RouteTable(part.routes for part in (claims, lanes, topics, batches, service, producers, operator))
