"""`python -m tests.matrix.gateway serve …`: the gateway, with failpoints if the environment requests them."""

from oncegate.__main__ import main
from tests.matrix.failpoints import install

if __name__ == "__main__":
    install()
    main()
