"""The text of Word's and PowerPoint's files, from their XML as it streams by.

No tree is built: reading ends where there is enough text, so that a book takes no more memory
than a letter. A declaration of a document type, which no office file has, ends it too: without
one there are no entities, neither those that grow nor those that name a file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from xml.parsers import expat

from src.errors import DocumentBrokenError
from src.media.document_text import TextCollector
from src.media.marked_text import MarkedText, Tags
from src.media.packages import Package

# Local names of ECMA-376, parts 1 (17 WordprocessingML, 21.1 DrawingML) and 3 (mc:Fallback, which
# says again, for old programs, what stands before it). "moveFrom" is where text stood before.
OF_OFFICE = Tags(
    blocks=frozenset({"p"}),
    breaks={"br": "\n", "cr": "\n", "tab": " ", "noBreakHyphen": "-", "numPr": "- "},
    tables=frozenset({"tbl"}),
    rows=frozenset({"tr"}),
    cells=frozenset({"tc"}),
    skipped=frozenset({"Fallback", "moveFrom", "tabs"}),
    texts=frozenset({"t"}),
)
NOTES = ("word/footnotes.xml", "word/endnotes.xml")
SLIDE = re.compile(r"ppt/slides/slide(\d{1,9})\.xml")
RELATIONS = "ppt/slides/_rels/slide{}.xml.rels"
SPEAKER_NOTES = re.compile(rb"notesSlides/notesSlide\d{1,9}\.xml")


def read_docx(package: Package, main: str, collector: TextCollector) -> None:
    """Hand a document's text, then that of its notes, to ``collector``.

    Args:
        package: The file.
        main: The name of its main part.
        collector: Takes the text.

    Raises:
        DocumentBrokenError: A part is no XML.
        EnoughTextError: The text is full.
    """
    names = package.names
    for part in (main, *(note for note in NOTES if note in names)):
        read_xml(package.pieces(part), collector)


def read_pptx(package: Package, collector: TextCollector) -> None:
    """Hand the text of the slides to ``collector``, in the order of their numbers.

    What the speaker wrote below a slide follows it.

    Raises:
        DocumentBrokenError: A part is no XML.
        EnoughTextError: The text is full.
    """
    found = (SLIDE.fullmatch(name) for name in package.names)
    for number in sorted(int(slide[1]) for slide in found if slide):
        for part in _parts_of_slide(package, number):
            read_xml(package.pieces(part), collector)
            collector.add("\n")


def _parts_of_slide(package: Package, number: int) -> list[str]:
    """The names of a slide and of its notes, which may have another number."""
    relations = RELATIONS.format(number)
    text = next(package.pieces(relations), b"") if relations in package.names else b""
    notes = SPEAKER_NOTES.search(text)
    names = (f"ppt/slides/slide{number}.xml", f"ppt/{notes[0].decode()}" if notes else "")
    return [name for name in names if name in package.names]


def read_xml(pieces: Iterable[bytes], collector: TextCollector) -> None:
    """Hand the text of one part to ``collector``.

    Raises:
        DocumentBrokenError: It is no XML, or declares a document type.
        EnoughTextError: The text is full.
    """
    marked = MarkedText(OF_OFFICE, collector)
    parser = expat.ParserCreate(namespace_separator=" ")
    parser.StartDoctypeDeclHandler = _refuse
    parser.StartElementHandler = lambda name, _: marked.start(name.rpartition(" ")[2])
    parser.EndElementHandler = lambda name: marked.end(name.rpartition(" ")[2])
    parser.CharacterDataHandler = marked.data
    try:
        for piece in pieces:
            parser.Parse(piece)
        parser.Parse(b"", True)
    except expat.ExpatError as error:
        raise DocumentBrokenError("a part is no XML") from error
    marked.finish()


def _refuse(*_: object) -> None:
    raise DocumentBrokenError("a part declares a document type")
