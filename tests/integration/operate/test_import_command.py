"""``import`` by an operator: what the file does not tell is asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from src.base.errors import AppError
from src.operate.imports import import_file
from tests.integration.person import Person


async def test_an_operator_is_asked_what_the_file_does_not_tell(
    person: Person, tmp_path: Path
) -> None:
    export = tmp_path / "_chat.txt"
    lines = "05/06/2024, 10:00 - Анна: мой кот\n05/06/2024, 10:01 - Борис: чужое"
    export.write_text(lines, encoding="utf-8")

    async def run(
        file: Path = export, speaker: str | None = None, dates: str | None = None
    ) -> str:
        return await import_file(
            person.core, person.user, file, facts=False, speaker=speaker, dates=dates
        )

    with pytest.raises(AppError, match="--speaker with one of Анна, Борис"):
        await run()
    with pytest.raises(AppError, match="--dates day, or --dates month"):
        await run(speaker="Анна")
    assert "Done: 1 brought over" in await run(speaker="Анна", dates="month")
    with pytest.raises(AppError, match="there is no file"):
        await run(tmp_path / "no.zip")
