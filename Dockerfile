# Image of the bot. It needs a database (docker-compose.yml includes one) and a bot token:
# without a token it exits with a line that says how to get one, instead of opening a console.

# python:3.11-slim of 1 October 2026 (3.11.17, Debian 13), by the digest of all its platforms, so that each
# build has the same base. To renew it, take the digest from: docker buildx imagetools inspect python:3.11-slim
FROM python:3.11-slim@sha256:45037981b62b34b44602584fccbc4d884d5f7dc92c7ee86bb38a698a79fe1e51

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    HTTP_HOST=0.0.0.0 \
    CONSOLE_FALLBACK=false \
    DATA_DIR=/data

RUN useradd --system --uid 10001 --home-dir /app pomni \
    && install -d -o pomni /data

WORKDIR /app
COPY requirements.lock requirements-anthropic.lock requirements-google.lock ./
RUN pip install --require-hashes -r requirements.lock -r requirements-anthropic.lock -r requirements-google.lock

COPY bot.py pyproject.toml ./
COPY src src
COPY migrations migrations
RUN python -m compileall -q bot.py src migrations

USER 10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]

ENTRYPOINT ["python", "bot.py"]
CMD ["run"]
