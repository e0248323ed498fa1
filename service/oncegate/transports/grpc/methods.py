"""The table of services and their unary methods."""

from collections.abc import Iterator

from oncegate.transports.grpc import claims, operators, producers, records
from oncegate.transports.grpc import gateway_pb2 as pb
from oncegate.transports.grpc.calls import GrpcMethod

SERVICES: dict[str, dict[str, GrpcMethod]] = {
    pb.DESCRIPTOR.services_by_name[name].full_name: methods
    for name, methods in (
        ("ClaimService", claims.METHODS),
        ("RecordService", records.PRODUCE),
        ("BatchService", records.BATCHES),
        ("ProducerService", producers.METHODS),
        ("OperatorService", operators.METHODS),
    )
}

# The streaming methods; the required role depends on the kind of each request.
STREAMS: dict[str, tuple[str, ...]] = {pb.DESCRIPTOR.services_by_name["ClaimService"].full_name: ("StreamClaims",)}


def paths() -> Iterator[tuple[str, GrpcMethod]]:
    """Yields the unary methods with their paths, `/SERVICE/METHOD`."""
    for service, methods in SERVICES.items():
        for name, method in methods.items():
            yield f"/{service}/{name}", method
