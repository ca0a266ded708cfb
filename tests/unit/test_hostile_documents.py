"""Files that are broken or mean harm: each ends in a text or in a sentence, in nothing else."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass

import psutil
import pytest

from src.base.errors import DocumentError
from src.media.document_child import MAX_MEMORY
from src.media.document_reader import PROGRAM, DocumentReader
from src.media.document_text import DocumentText, is_storable
from src.texts import LANGUAGES, say
from tests.fakes.hostile_documents import Files, hostile_files

CANARY = "zolotaya-kanareyka"
NAME = "tajnoe-imya-{}.{}"
# Starts the child, and writes down how much memory it took at most, in KiB.
METER = """
import os, signal, sys
child = os.spawnv(os.P_NOWAIT, sys.argv[2], sys.argv[2:])
_, status, usage = os.wait4(child, 0)
with open(sys.argv[1], "a") as peaks:
    peaks.write(f"{usage.ru_maxrss}\\n")
code = os.waitstatus_to_exitcode(status)
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
"""
# What the file's harm is to be called; of the others either answer will do.
NAMES_OF_ERRORS = {
    "without_text": (
        "pdf: only pictures", "docx: no text", "xlsx: an empty table", "text: empty",
        "text: only spaces",
    ),
    "protected": (
        "pdf: a password", "docx: a password", "xlsx: a password", "zip: encrypted entries",
    ),
    "broken": (
        "pdf: only a head", "docx: billion laughs", "docx: quadratic laughs",
        "docx: laughs in slides", "docx: a file as an entity", "docx: a file as a parameter",
        "docx: no XML", "zip: more inside than it says",
    ),
    "too_full": (
        "docx: a bomb", "docx: a bomb beside", "xlsx: the last cell", "xlsx: a tall sheet",
        "xlsx: a bomb", "zip: four gigabytes, by its word", "zip: a bomb", "zip: a bomb of Word",
        "zip: overlapping", "zip: twenty thousand entries",
    ),
    "kind": (
        "docx: old Word", "text: only NUL", "text: random", "text: a picture", "text: a photo",
        "text: rich text", "text: packed", "zip: paths that climb", "zip: a plain archive",
        "zip: Word in an archive", "zip: open document", "zip: gzip", "zip: tar",
    ),
}  # fmt: skip
MEANT = {name: error for error, names in NAMES_OF_ERRORS.items() for name in names}

# What only looks odd: a part of its text.
ODD: Mapping[str, str] = {
    "pdf: JavaScript": "text",
    "pdf: a thousand million pages": "text",
    "pdf: without its last byte": "Їжак",
    "docx: a link as a part": "text",
    "text: half a letter": "Їжа",
    "text: coloured": "red",
    "text: a million columns": "1,1,1",
    "zip: bombs in Word": "text",
    "zip: paths from the root": "text",
}
# A few of each way to do harm; every file is read by ``make proof``.
FEW = frozenset(
    {(name.partition(":")[0], error): name for name, error in reversed(MEANT.items())}.values()
).union(ODD, {
    "pdf: deep arrays", "pdf: pages in a circle", "pdf: a bomb", "pdf: a file from elsewhere",
    "docx: quadratic laughs", "docx: a file as an entity", "docx: a file as a parameter",
    "docx: a file by inclusion", "docx: deep tables", "xlsx: quadratic laughs", "xlsx: deep XML",
    "xlsx: a file as an entity", "text: deep JSON", "text: open comments", "text: a file in svg",
    "zip: more inside than it says", "zip: a bomb", "zip: overlapping",
    *(f"{kind}: flipped with seed 0" for kind in ("pdf", "docx", "xlsx", "text", "zip")),
    "pdf: without its middle", "docx: without its middle",
})  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """What came of the files.

    Attributes:
        answers: By kind and name.
        log: All that was logged, with every field.
        peaks: The children's memory, in KiB.
        left: Processes that outlived the reading.
    """

    answers: Mapping[str, DocumentText | BaseException]
    log: str
    peaks: list[int]
    left: set[int]


class _Everything(logging.Handler):
    """Keeps every record, with its extra fields and the text of its errors."""

    def __init__(self) -> None:
        super().__init__(logging.DEBUG)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.getMessage()} {record.__dict__}")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Files]:
    secret = tmp_path_factory.mktemp("secret") / "secret.txt"
    secret.write_text(CANARY)
    return hostile_files(str(secret))


@pytest.fixture(scope="module", params=[False, pytest.param(True, marks=pytest.mark.proof)])
def outcome(
    request: pytest.FixtureRequest,
    files: dict[str, Files],
    tmp_path_factory: pytest.TempPathFactory,
) -> Outcome:
    """FEW files, or all, are read once, each by a process of its own, as in the bot."""
    peaks = tmp_path_factory.mktemp("peaks") / "peaks"
    peaks.touch()
    program = (sys.executable, "-I", "-S", "-c", METER, str(peaks), *PROGRAM)
    before = children()
    log = _Everything()
    logging.getLogger("src.media").addHandler(log)
    try:
        answers = asyncio.run(read_all(files, request.param, program))
    finally:
        logging.getLogger("src.media").removeHandler(log)
    return Outcome(
        answers,
        "\n".join(log.lines),
        [int(peak) for peak in peaks.read_text().split()],
        children() - before,
    )


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children()}


async def read_all(
    files: dict[str, Files], every: bool, program: tuple[str, ...]
) -> dict[str, DocumentText | BaseException]:
    reader = DocumentReader(program)
    tasks = {
        f"{kind}: {name}": reader.read(data, file_name=NAME.format(number, kind))
        for kind, named in files.items()
        for number, (name, data) in enumerate(named.items())
        if every or f"{kind}: {name}" in FEW
    }
    assert every or tasks.keys() == FEW
    return dict(
        zip(tasks, await asyncio.gather(*tasks.values(), return_exceptions=True), strict=True)
    )


def test_every_file_ends_in_a_text_or_in_a_sentence(
    files: dict[str, Files], outcome: Outcome
) -> None:
    assert min(len(named) for named in files.values()) >= 50
    texts = {name: one for name, one in outcome.answers.items() if isinstance(one, DocumentText)}
    assert len(texts) > len(outcome.answers) // 6
    for name, answer in outcome.answers.items():
        if name in texts:
            assert is_storable(texts[name].text) and CANARY not in texts[name].text, name
        else:
            assert isinstance(answer, DocumentError), (name, answer)
            assert all(say(answer.text_key, language) for language in LANGUAGES), name
    said = {name: getattr(one, "problem", None) for name, one in outcome.answers.items()}
    meant = {name: error for name, error in MEANT.items() if name in said}
    assert {name: said[name] for name in meant} == meant
    assert {name: part for name, part in ODD.items() if part not in texts[name].text} == {}


def test_no_child_takes_more_memory_than_it_may_or_outlives_its_file(outcome: Outcome) -> None:
    assert len(outcome.peaks) == len(outcome.answers)
    assert max(outcome.peaks) * 1024 <= MAX_MEMORY
    assert outcome.left == set()


def test_the_log_holds_neither_names_nor_contents(outcome: Outcome) -> None:
    assert "the process that read a file died" in outcome.log
    for word in ("tajnoe", CANARY, "Договор", "Їжак", "haha", "secret"):
        assert word not in outcome.log, word
    errors = [repr(answer) for answer in outcome.answers.values() if isinstance(answer, Exception)]
    assert not any("tajnoe" in error or "/" in error for error in errors)
