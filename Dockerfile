# Two stages: wheels and their dependencies by hash; then only what runs, as a user without rights.
#
# Without a file of keys the gateway listens on loopback only, also in here. Share the host's network:
#   docker run --network host -v oncegate:/data oncegate
FROM python:3.12-slim AS build
WORKDIR /src
COPY requirements/service.txt requirements/service.txt
RUN python -m venv /opt/oncegate \
    && /opt/oncegate/bin/pip install --no-cache-dir --require-hashes -r requirements/service.txt
COPY pyproject.toml README.md LICENSE ./
COPY service service
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels . \
    && /opt/oncegate/bin/pip install --no-cache-dir --no-deps /wheels/*.whl

FROM python:3.12-slim
LABEL org.opencontainers.image.title="oncegate" \
      org.opencontainers.image.description="A deduplicating gateway: retried writes take effect once"
ENV PATH=/opt/oncegate/bin:$PATH \
    NUMBA_CACHE_DIR=/var/cache/oncegate \
    PYTHONDONTWRITEBYTECODE=1
COPY --from=build /opt/oncegate /opt/oncegate
RUN useradd --uid 65532 --no-create-home --shell /usr/sbin/nologin oncegate \
    && install -d -o oncegate -g oncegate /data /var/cache/oncegate
USER 65532:65532
# Kernels compiled once, so that the first start does not wait for them.
RUN python -c "from oncegate.app import compile_kernels; compile_kernels()"
VOLUME /data
WORKDIR /data
ENTRYPOINT ["oncegate"]
# The witness lies beside the data folder, so the data folder is one level down.
CMD ["serve", "--data", "/data/ledger", "--port", "8080"]
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as u; u.urlopen('http://127.0.0.1:8080/healthz/ready', timeout=2)"]
