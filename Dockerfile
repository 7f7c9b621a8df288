# layerlore over HTTP. Only the wheel and its locked dependencies are in the image; it runs as nobody in particular.
# The digest is that of the index, which holds amd64 and arm64, as docker-library/repo-info has it for the tag before it;
# docs/deploying.md says how it is moved.
FROM python:3.13-slim-trixie@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6 AS build
ARG PREFIX=/opt/layerlore
ARG DATA=/var/lib/layerlore
WORKDIR /src
COPY pyproject.toml README.md LICENSE requirements-server.txt ./
COPY .dev/wheel ./.dev/wheel
COPY server ./server
COPY memory ./memory
COPY extraction ./extraction
COPY storage ./storage
COPY prompts ./prompts
RUN python3 -m venv ${PREFIX} && ${PREFIX}/bin/pip install --no-cache-dir --require-hashes -r requirements-server.txt
RUN python3 -m venv /tmp/layerlore-build && /tmp/layerlore-build/bin/pip install --no-cache-dir "hatchling>=1.27,<2"
RUN /tmp/layerlore-build/bin/python -m hatchling build -t wheel && rm -rf /tmp/layerlore-build
RUN ${PREFIX}/bin/pip install --no-cache-dir --no-deps dist/*.whl
RUN install -d -m 0700 -o 10001 -g 10001 ${DATA}

FROM python:3.13-slim-trixie@sha256:9662417aace5ae7b8e2609cce472b72a8958e134ba372808abe9cc1a0c0125e6
COPY --from=build /opt/layerlore /opt/layerlore
COPY --from=build --chown=10001:10001 /var/lib/layerlore /var/lib/layerlore
ENV PATH=/opt/layerlore/bin:$PATH \
    LAYERLORE_DATA_DIR=/var/lib/layerlore \
    LAYERLORE_HTTP__HOST=0.0.0.0
USER 10001:10001
VOLUME /var/lib/layerlore
EXPOSE 8765
HEALTHCHECK --interval=30s --timeout=5s --start-period=10s \
    CMD ["python3", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8765/ready', timeout=4)"]
# It does not start without a key: run the image with `keys create --tenant NAME` and the same volume first, or configure
# JWT. LAYERLORE_HTTP__PUBLIC_URL is the name that others call it by; TLS is the work of a proxy (docs/http.md).
ENTRYPOINT ["layerlore"]
CMD ["serve"]
