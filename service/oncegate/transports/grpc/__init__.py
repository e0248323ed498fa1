"""The gRPC transport, on grpcio."""

import os

# grpcio has no option for the minimum version of TLS. It reads the cipher suites of TLS 1.2, but not those of 1.3, from
# this variable when it is first imported. The suite here needs a pre-shared key, which does not exist: every handshake
# below 1.3 fails.
os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-PSK-CHACHA20-POLY1305"
