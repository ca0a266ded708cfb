"""The reader of files: what it reads of real ones, and how it and its child behave."""

from __future__ import annotations

import asyncio
import datetime
import subprocess
import sys
import uuid
from collections.abc import Callable

import psutil
import pytest

from src.base.errors import AppError, DocumentError, TransientError
from src.media.document_child import MAX_CPU_SECONDS, MAX_MEMORY
from src.media.document_reader import MAX_BYTES, ROOT, DocumentReader
from src.media.document_text import MAX_CHARACTERS, DocumentText
from tests.fakes.documents import (
    WORD,
    archive,
    cell,
    excel_file,
    filled_pdf,
    locked_office_file,
    locked_pdf,
    office_file,
    pdf_file,
    raw_excel_file,
    raw_word_file,
    scanned_pdf,
    slides_file,
    word_file,
    word_paragraph,
    word_xml,
)

RUSSIAN = "Съешь ещё этих мягких французских булок, да выпей чаю: сорок рублей."
UKRAINIAN = "Ґанок, їжак та об’єкт: орендар сплачує п’ятнадцять тисяч гривень."
ENGLISH = "The quick brown fox jumps over the lazy dog, as it did yesterday."
LINES = [RUSSIAN, UKRAINIAN, ENGLISH]
RENT = [["Месяц", "Сума", "Note"], ["январь", "15 000", "paid"], ["лютий", "", "ні"]]
RENT_LINES = "Месяц | Сума | Note\nянварь | 15 000 | paid\nлютий | | ні"


@pytest.fixture
def reader() -> DocumentReader:
    return DocumentReader()


async def text_of(data: bytes, name: str = "file") -> str:
    return (await DocumentReader().read(data, file_name=name)).text


def program(code: str, **changes: float) -> DocumentReader:
    """A reader whose child runs this code."""
    program = (sys.executable, "-I", "-S", "-c", f"import os, sys, time\n{code}")
    return DocumentReader(program, **changes)


LINES = (RUSSIAN, UKRAINIAN.replace("’", "'").replace("Ґ", "Г"), ENGLISH)


@pytest.mark.parametrize("every", [False, pytest.param(True, marks=pytest.mark.proof)])
@pytest.mark.parametrize(("number", "encoding"), [*enumerate([
    "utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32",
    "cp1251", "koi8-u", "cp866", "iso8859-5",
])])  # fmt: skip
async def test_a_text_is_read_in_whatever_encoding(
    reader: DocumentReader, number: int, encoding: str, every: bool
) -> None:
    """Each in one of three languages; in ``make proof`` in all of them."""
    for line in LINES if every else [LINES[number % len(LINES)]]:
        if encoding == "cp866":
            line = line.replace("і", "и")  # it has no such letter
        read = await reader.read(f"{line}\r\n{line}".encode(encoding), file_name="a.txt")
        assert read == DocumentText(f"{line}\n{line}", is_cut=False)


@pytest.mark.parametrize(("data", "name", "text"), [
    ("# Список\n\n* їжак, 1\n".encode(), "g.docx", "# Список\n\n* їжак, 1"),
    (b"\x1b[1;31merror\x1b[0m: \x07disk full\n", "a.log", "error: disk full"),
    ((RUSSIAN * 20).encode() + b"\xff" + UKRAINIAN.encode(), "a", f"{RUSSIAN * 20}�{UKRAINIAN}"),
    (pdf_file([LINES, ["Second"], []]), "a", "\n".join(LINES) + "\n\nSecond"),
    (pdf_file([["переноситься сю\u2010", "ди, а тут \u2010", "ні"]]), "a",
     "переноситься сюди, а тут \u2010\nні"),
    (locked_pdf(pdf_file([LINES]), "RC4-128", is_open=True), "a", "\n".join(LINES)),
    (word_file(LINES, RENT), "a.docx", "\n".join(LINES) + "\n" + RENT_LINES),
    (office_file({"word/document2.xml": word_xml(word_paragraph("текст"))}), "a.bin", "текст"),
    (raw_word_file(word_xml(word_paragraph("текст")), {"word/media/white.bmp": bytes(9 << 20)}),
     "a", "текст"),
    ("<div>їжак</div><div>ёж</div>".encode(), "a.HTM", "їжак\nёж"),
    ("<div>їжак</div><div>ёж</div>".encode(), "a.txt", "<div>їжак</div><div>ёж</div>"),
    ("я".encode() * MAX_CHARACTERS, "a.txt", "я" * MAX_CHARACTERS),
    (filled_pdf(), "a.pdf", "Surname:\nBondar agreed"),
], ids=range(13))  # fmt: skip
async def test_what_an_honest_file_says_is_read(data: bytes, name: str, text: str) -> None:
    read = await DocumentReader().read(data, file_name=name)
    assert read == DocumentText(text, is_cut=False)


async def test_of_a_word_file_is_read_what_a_reader_sees() -> None:
    body = (
        '<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs><w:numPr/></w:pPr>'
        "<w:r><w:t>пункт</w:t><w:tab/><w:t>один</w:t><w:br/><w:t>рядок</w:t></w:r></w:p>"
        "<w:p><w:del><w:r><w:delText>стёрто</w:delText></w:r></w:del>"
        "<w:moveFrom><w:r><w:t>було тут</w:t></w:r></w:moveFrom>"
        "<w:r><w:instrText>PAGE</w:instrText></w:r>"
        "<mc:AlternateContent><mc:Choice><w:r><w:t>раз</w:t></w:r></mc:Choice>"
        "<mc:Fallback><w:r><w:t>раз</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>"
    )
    notes = f'<w:footnotes xmlns:w="{WORD}">{word_paragraph("сноска")}</w:footnotes>'
    data = raw_word_file(word_xml(body), {"word/footnotes.xml": notes})
    assert await text_of(data) == "- пункт один\nрядок\nраз\nсноска"


async def test_an_excel_file_is_read_sheet_by_sheet() -> None:
    data = excel_file({
        "Аренда": RENT,
        "Порожній": [],
        "Числа": [
            [1, 0.1 + 0.2, True, "=SUM(A1:A1)"], [datetime.date(2026, 11, 3), "a\nb"],
            [], ["x", *[""] * 20, "y"],
        ],
    })  # fmt: skip
    read = await DocumentReader().read(data, file_name="a.xlsx")
    assert not read.is_cut
    assert read.text == (
        f"# Аренда\n{RENT_LINES}\n\n# Числа\n1 | 0.3 | TRUE | 42\n2026-11-03 | a b\nx | … | y"
    )


async def test_slides_are_read_in_their_order_with_what_the_speaker_says() -> None:
    slides = [[f"Слайд {number}", "їжак"] for number in range(1, 12)]
    read = await DocumentReader().read(slides_file(slides, {10: "сказати"}), file_name="a.pptx")
    assert read.text.split("\n\n") == [
        part for number in range(1, 12)
        for part in (f"Слайд {number}\nїжак", *(["сказати"] if number == 10 else []))
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "windows-1251", "koi8-u"])
async def test_a_page_is_read_as_a_browser_shows_it(encoding: str) -> None:
    page = f"""<!DOCTYPE html><html><head><meta charset="{encoding}"><title>Оренда</title>
        <style>p {{}}</style><script>var нет = "<p>скрипт</p>";</script></head><body>
        <p>Їжак &amp;
           ёж<br>і другий рядок</p><ul><li>раз<li>два</ul>пере&shy;нос
        <table><tr><th>Месяц<th>Сума<tr><td><p>янв</p><p>арь</p></td><td>15&nbsp;000</table>
        """
    read = await DocumentReader().read(page.encode(encoding), file_name="a")
    assert read == DocumentText(
        "Оренда\nЇжак & ёж\nі другий рядок\n- раз\n- два\nперенос\nМесяц | Сума\nянв арь | 15 000",
        is_cut=False,
    )  # fmt: skip


@pytest.mark.parametrize("make", [
    lambda line, count: "\n\n".join([line] * count).encode(),
    lambda line, count: pdf_file([[line] * 40] * (count // 40)),
    lambda line, count: raw_word_file(word_xml(word_paragraph(line) * count)),
    lambda line, count: excel_file({"A": [[line]] * count}),
    lambda line, count: slides_file([[line] * 40] * (count // 40)),
    lambda line, count: f"<html>{f'<p>{line}</p>' * count}".encode(),
])  # fmt: skip
async def test_a_long_text_is_cut_at_the_end_of_a_line(
    make: Callable[[str, int], bytes],
) -> None:
    read = await DocumentReader().read(make(RUSSIAN, 2000), file_name="a")
    assert read.is_cut
    assert MAX_CHARACTERS * 0.9 < len(read.text) <= MAX_CHARACTERS
    assert read.text.endswith(RUSSIAN)


UNREADABLE = {
    "too large": (b"%PDF-" + bytes(MAX_BYTES - 4), "too_large"),
    "a scan": (scanned_pdf(), "without_text"),
    "nothing": (b"", "without_text"),
    "spaces": (b"  \n", "without_text"),
    "a PDF with a password": (locked_pdf(pdf_file([LINES]), "RC4-128"), "protected"),
    "one of today": (locked_pdf(pdf_file([LINES]), "AES-256"), "protected"),
    "a Word file with a password": (locked_office_file(), "protected"),
    "half a Word file": (word_file(LINES)[:9000], "broken"),
    "a picture": (b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 9, "kind"),
    "an archive": (archive({"a.txt": "text"}), "kind"),
    "a sheet of all cells": (
        raw_excel_file(cell("A1", 1) + cell("XFD1048576", 1, 1048576)), "too_full",
    ),
    "a cell beyond the last": (raw_excel_file(cell("ZZZZZZ999999", 2)), "broken"),
}  # fmt: skip


@pytest.mark.parametrize("name", UNREADABLE)
async def test_what_cannot_be_read_says_why(reader: DocumentReader, name: str) -> None:
    data, error = UNREADABLE[name]
    with pytest.raises(DocumentError) as caught:
        await reader.read(data, file_name="a.docx")
    assert caught.value.problem == error


async def test_a_child_that_takes_too_long_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    mark = uuid.uuid4().hex
    reader = program(f"time.sleep(60)  # {mark}", deadline=0.3)
    with pytest.raises(DocumentError) as caught:
        await reader.read(b"text", file_name="name.txt")
    assert caught.value.problem == "too_slow"
    assert "took too long" in caplog.text and "name" not in caplog.text
    assert not is_running(mark)


def is_running(mark: str) -> bool:
    """Whether there is a process, on the whole machine, with this in its command line."""
    return any(
        mark in str(process.info["cmdline"]) for process in psutil.process_iter(["cmdline"])
    )


@pytest.mark.parametrize(("code", "error"), [
    ("os.kill(os.getpid(), 24)", "too_slow"), ("os.abort()", "too_full"),
    ("os.kill(os.getpid(), 11)", "broken"), ("pass", "broken"), ("print('[' * 100_000)", "broken"),
])  # fmt: skip
async def test_a_child_that_dies_says_what_of(code: str, error: str) -> None:
    with pytest.raises(DocumentError) as caught:
        await program(code).read(b"text" * 100_000, file_name="")
    assert caught.value.problem == error


@pytest.mark.parametrize("said", [
    "nonsense", "[]", "{}", "7", '"error"', '{"error": [], "cause": "x"}',
    '{"text": "", "is_cut": false}', "null", '{"error": "KeyboardInterrupt", "cause": "x"}',
    '{"text": 7, "is_cut": false}', '{"text": "a\\u0000", "is_cut": false}',
    '{"text": "\\ud800", "is_cut": false}',
    pytest.param(
        '{"text": "' + "a" * (MAX_CHARACTERS + 1) + '", "is_cut": 0}', id="long"
    ),
])  # fmt: skip
async def test_a_child_is_believed_nothing(said: str) -> None:
    with pytest.raises(DocumentError) as caught:
        await program(f"print({said!r})").read(b"text", file_name="")
    assert caught.value.problem == "broken"


async def test_a_library_that_is_missing_is_no_fault_of_the_file(
    caplog: pytest.LogCaptureFixture,
) -> None:
    said = '{"error": "missing", "cause": "ModuleNotFoundError"}'
    with pytest.raises(AppError) as caught:
        await program(f"print({said!r})").read(b"text", file_name="")
    assert type(caught.value) is AppError
    assert [record.levelname for record in caplog.records] == ["ERROR"]


async def test_a_child_that_does_not_stop_writing_is_ended() -> None:
    code = (
        f"sys.path.insert(0, {str(ROOT)!r}); sys.path += {sys.path!r}\n"
        "from src.media import document_child as child\n"
        "child.limit_resources()\n"
        "while True: os.write(1, b'x' * 9999)"
    )
    with pytest.raises(DocumentError) as caught:
        await program(code).read(b"text", file_name="")
    assert caught.value.problem == "too_full"


async def test_at_most_two_files_are_read_at_a_time() -> None:
    say = 'print(\'{"text": "\' + str(%s) + \'", "is_cut": false, "kind": "text"}\')'
    code = f"begin = time.time(); time.sleep(0.2); {say % '(begin, time.time())'}"
    reader = program(code)
    answers = await asyncio.gather(*(reader.read(b"", file_name="") for _ in range(5)))
    spans = [tuple(map(float, answer.text.strip("()").split(","))) for answer in answers]
    running = [sum(start <= moment < end for start, end in spans) for moment, _ in spans]
    assert max(running) <= 2


async def test_the_bot_s_environment_stays_with_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TELEGRAM_BOT_TOKEN", "secret")
    say = (
        'print(\'{"text": "\' + repr(dict(os.environ)) + \'", "is_cut": false, "kind": "text"}\')'
    )
    read = await program(say).read(b"", file_name="")
    assert "secret" not in read.text and "TOKEN" not in read.text


@pytest.mark.parametrize("harm", [
    "open('/etc/hostname')",
    "open('harm', 'w')",
    "socket.socket()",
    "os.pipe()",
    "os.fork()",
    "resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))",
    f"bytearray({MAX_MEMORY})",
])  # fmt: skip
def test_a_child_can_do_no_harm(harm: str) -> None:
    said = run_python(
        "import os, resource, signal, socket, tempfile\n"
        "from src.media import document_child as child\n"
        "file = tempfile.TemporaryFile()\n"
        "kept = file.fileno()\n"
        "child.limit_resources()\n"
        "cpu, core = map(resource.getrlimit, (resource.RLIMIT_CPU, resource.RLIMIT_CORE))\n"
        "is_deaf = signal.getsignal(signal.SIGTERM) == signal.SIG_IGN\n"
        "print(cpu[0], core, signal.alarm(0) > 0, is_deaf)\n"
        "child.lock_down()\n"
        f"try: {harm}\n"
        "except (OSError, ValueError, MemoryError): print('refused')\n"
    )
    assert said == f"{MAX_CPU_SECONDS} (0, 0) True True\nrefused\n"


async def test_a_file_for_which_there_is_no_process_is_read_later() -> None:
    with pytest.raises(TransientError):
        await DocumentReader(("/nowhere/python",)).read(b"text", file_name="a.txt")


async def test_a_child_s_cause_is_a_name_and_nothing_else() -> None:
    code = 'print(\'{"error": "broken", "cause": "/home/someone said: x"}\')'
    with pytest.raises(DocumentError) as caught:
        await program(code).read(b"text", file_name="")
    assert caught.value.problem == "broken" and "someone" not in str(caught.value)


def run_python(code: str) -> str:
    """Run a script beside the bot's modules, and return what it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    return done.stdout
