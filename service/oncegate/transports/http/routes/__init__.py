"""HTTP's routes: each reads its request, calls a use case, and answers."""

from oncegate.transports.http.routes import batches, claims, lanes, operator, producers, service, topics
from oncegate.transports.http.routing import Table

# In the order in which they are tried: those that are asked most are first.
TABLE = Table(part.routes for part in (claims, lanes, topics, batches, service, producers, operator))
