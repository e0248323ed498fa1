# Two stages: wheels and their dependencies by hash; then only what runs, as a user without rights.
#
# Without a file of keys the gateway listens on loopback only, also in here. Share the host's network:
#   docker run --network host -v oncegate:/data oncegate
# Its root may be read-only (--read-only --tmpfs /tmp): all that it writes is below /data.
FROM python:3.12-slim AS build
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
WORKDIR /src
COPY requirements/image.txt requirements/image.txt
RUN python3 -m venv /opt/oncegate \
    && /opt/oncegate/bin/pip install --no-cache-dir --no-compile --require-hashes -r requirements/image.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
RUN /opt/oncegate/bin/pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && /opt/oncegate/bin/pip install --no-cache-dir --no-compile --no-deps /wheels/*.whl \
    && /opt/oncegate/bin/pip uninstall --yes pip
# What is in it, by name, version and licence, for whoever asks for known vulnerabilities.
COPY requirements/sbom.txt requirements/sbom.txt
RUN python3 -m venv /opt/sbom \
    && /opt/sbom/bin/pip install --no-cache-dir --require-hashes -r requirements/sbom.txt \
    && /opt/sbom/bin/cyclonedx-py environment --output-reproducible -o /opt/oncegate/sbom.cdx.json /opt/oncegate/bin/python3
# Layers keep whole seconds of a file's time. Compiled loops and bytecode know the time of their source, and with its
# parts of a second they would fit no source any more once the image was moved: each start would compile.
RUN find /opt/oncegate -name '*.py' -exec touch --date=@1767225600 {} + \
    && /opt/oncegate/bin/python3 -m compileall -q -j 0 /opt/oncegate/lib

FROM python:3.12-slim
LABEL org.opencontainers.image.title="oncegate" \
      org.opencontainers.image.description="A deduplicating gateway: retried writes take effect once" \
      org.opencontainers.image.licenses="Apache-2.0"
# Loops are compiled for any processor of the architecture, here and where the image runs: for the one that builds it,
# each other one would compile them again.
ENV PATH=/opt/oncegate/bin:$PATH \
    NUMBA_CACHE_DIR=/var/cache/oncegate \
    NUMBA_CPU_NAME=generic \
    PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/oncegate /opt/oncegate
RUN useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin oncegate \
    && install -d -o oncegate -g oncegate /data /var/cache/oncegate
USER 65532:65532
# Loops compiled once, so that the first start does not wait for them.
RUN ["python3", "-c", "from oncegate.app import compile_kernels; compile_kernels()"]
VOLUME /data
WORKDIR /data
ENTRYPOINT ["oncegate"]
# The witness lies beside the data folder, so the data folder is one level down.
CMD ["serve", "--data", "/data/ledger", "--port", "8080"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python3", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz/ready', timeout=2)"]
