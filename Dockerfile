# Image of the bot. It needs a database (docker-compose.yml includes one) and a bot token:
# without a token it exits with a line that says how to get one, instead of opening a console.
FROM python:3.11-slim

ENV PYTHONUNBUFFERED=1 \
    PIP_NO_CACHE_DIR=1 \
    HTTP_HOST=0.0.0.0 \
    CONSOLE_FALLBACK=false \
    DATA_DIR=/data

WORKDIR /app
COPY requirements.txt requirements-anthropic.txt requirements-google.txt ./
RUN pip install -r requirements-anthropic.txt -r requirements-google.txt \
    && useradd --system --uid 10001 --home-dir /app pomni \
    && install -d -o pomni /data

COPY bot.py .
COPY src src
COPY migrations migrations
RUN python -m compileall -q src

USER 10001
VOLUME /data
EXPOSE 8080
HEALTHCHECK --interval=30s --timeout=5s --start-period=60s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8080/healthz', timeout=4)"]

ENTRYPOINT ["python", "bot.py"]
CMD ["run"]
