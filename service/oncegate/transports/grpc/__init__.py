"""gRPC by grpcio."""

import os

# The library has no option for the lowest version of TLS. It reads suites of TLS 1.2 from its environment, when it is
# first imported; those of 1.3 are not named there. This one needs a key that both sides know beforehand, and there is
# none, so that no handshake below 1.3 comes to its end.
os.environ["GRPC_SSL_CIPHER_SUITES"] = "ECDHE-PSK-CHACHA20-POLY1305"
