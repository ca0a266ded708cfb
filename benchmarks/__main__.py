"""Main benchmark (``make bench``): all figures in one run, as a table and as JSON."""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import platform
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.history import count_statements, measure_history
from benchmarks.prompts import measure_prompts
from benchmarks.retrieval.latency import measure_latency
from benchmarks.turns import Load, measure_turns
from benchmarks.world import fill_database
from src.pg.embedded import EmbeddedPostgres

RESULTS = Path(__file__).parent / "results"
# Targets of the project: (at most / at least, figure).
BARS = {
    "memory_idle_mb": ("<=", 300.0),
    "embedded_after_flood_s": ("<=", 60.0),
    "statements_per_turn": ("<=", 9.0),
    "transactions_per_turn": ("<=", 7.0),
    "search_of_10000_p99_ms": ("<=", 15.0),
    "retrieval_with_local_embedding_p50_ms": ("<=", 40.0),
    "context_tokens_after_100000": ("<=", 4700.0),
    "prompt_cached_share": (">=", 0.60),
}
# Targets that depend on the machine, as ratios to the bare handler.
RATIOS = {
    "added_p50_ms": ("<=", 5.0),
    "turns_per_s": (">=", 0.35),
    "cold_start_s": ("<=", 1.1),
}


def main() -> None:
    """Fill a database, measure, print the results and write them."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks")
    parser.add_argument("--quick", action="store_true", help="a tenth of everything")
    arguments = parser.parse_args()
    scale = 10 if arguments.quick else 1
    load = Load(paced=800 // scale, flood=3000 // scale, memory_turns=10_000 // scale)
    with tempfile.TemporaryDirectory(prefix="pomni-bench-") as name:
        folder = Path(name)
        server = EmbeddedPostgres(folder)
        dsn = server.start()
        try:
            results = measure(dsn, load, folder, scale)
        finally:
            server.stop()
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "latest.json").write_text(json.dumps(results, indent=2) + "\n")
    show(results)


def measure(dsn: str, load: Load, folder: Path, scale: int) -> dict[str, object]:
    """Return all figures as one JSON object."""
    start = time.monotonic()
    messages = fill_database(dsn, users=load.users, each=90 // scale, long=100_000)
    print(f"{messages:,} messages of {load.users:,} users in {time.monotonic() - start:.0f} s")
    database = measure_history(dsn)
    database |= asyncio.run(count_statements(dsn))
    gc.collect()
    gc.freeze()  # this process plays Telegram and the model; its pauses would count as the bots'
    turns = asyncio.run(measure_turns(dsn, load, folder))
    database |= measure_prompts(dsn)
    database |= measure_latency(scale=scale)
    return {
        "machine": f"{platform.machine()}, Python {platform.python_version()}",
        "messages": messages,
        "database": database,
        **turns,
    }


def show(results: dict[str, object]) -> None:
    """Print the results as a table, with the targets."""
    pomni, bare, ratio = (results[key] for key in ("pomni", "bare", "ratio"))
    assert isinstance(pomni, dict) and isinstance(bare, dict) and isinstance(ratio, dict)
    print(f"{'':32}{'Pomni':>10}{'bare':>10}{'ratio':>8}  bar")
    for name, value in pomni.items():
        beside = bare.get(name, float("nan"))
        times = ratio.get(name, float("nan"))
        bar = _bar(name, times, RATIOS) or _bar(name, value, BARS)
        print(f"{name:32}{value:10.1f}{beside:10.1f}{times:8.2f}  {bar}")
    database = results["database"]
    assert isinstance(database, dict)
    for name, value in database.items():
        print(f"{name:32}{value:10.2f}{'':18}  {_bar(name, value, BARS)}")


def _bar(name: str, value: float, bars: Mapping[str, tuple[str, float]]) -> str:
    if name not in bars:
        return ""
    sign, figure = bars[name]
    reached = value <= figure if sign == "<=" else value >= figure
    return f"{sign} {figure:g} {'reached' if reached else 'NOT REACHED'}"


if __name__ == "__main__":
    main()
