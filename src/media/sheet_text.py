"""The text of Excel's files: the values of the cells, sheet by sheet."""

from __future__ import annotations

import datetime
import io
import re

from python_calamine import CalamineError, CalamineWorkbook, PasswordError

from src.base.errors import DocumentBrokenError, DocumentProtectedError
from src.media.document_text import TextCollector
from src.media.marked_text import BETWEEN_CELLS

Cell = int | float | str | bool | datetime.time | datetime.date | datetime.timedelta
SPACES = re.compile(r"\s+")
MANY_EMPTY = re.compile(r"(?: \|){5,}(?= )")
MAX_SHEETS = 200
MAX_ROWS, MAX_COLUMNS = 1_048_576, 16_384  # Excel's own; calamine believes what stands there


def read_xlsx(data: bytes, collector: TextCollector) -> None:
    """Hand the text to ``collector``: the name of a sheet, then its rows, without empty ones.

    A formula is what it came to when the file was saved.

    Raises:
        DocumentBrokenError: It is no workbook.
        DocumentProtectedError: It needs a password.
        EnoughTextError: The text is full.
    """
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        if len(workbook.sheet_names) > MAX_SHEETS:
            collector.note_rest()
        for index, name in enumerate(workbook.sheet_names[:MAX_SHEETS]):
            _read_sheet(workbook, index, f"# {_line(name)}\n", collector)
    except PasswordError as error:
        raise DocumentProtectedError("a workbook with a password") from error
    except (CalamineError, OSError, ValueError) as error:
        raise DocumentBrokenError("a broken workbook") from error


def _read_sheet(
    workbook: CalamineWorkbook, index: int, title: str, collector: TextCollector
) -> None:
    sheet = workbook.get_sheet_by_index(index)
    row, column = sheet.end or (0, 0)
    if row >= MAX_ROWS or column >= MAX_COLUMNS:
        raise DocumentBrokenError("a cell beyond the last")
    for cells in sheet.iter_rows():
        if line := _row(cells):
            collector.add(title + line + "\n")
            title = ""
    if not title:
        collector.add("\n")


def _row(cells: list[Cell]) -> str:
    texts = [_text(cell) for cell in cells]
    line = _line(BETWEEN_CELLS.join(texts)).rstrip(" |")
    return MANY_EMPTY.sub(" | … |", line)


def _text(cell: Cell) -> str:
    if isinstance(cell, bool):
        return str(cell).upper()
    if isinstance(cell, float):
        return f"{cell:.15g}"  # as many digits as Excel keeps
    return _line(str(cell))


def _line(text: str) -> str:
    return SPACES.sub(" ", text).strip()
