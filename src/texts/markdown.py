"""Markdown of people and models, as a tree of few elements.

Signs that Markdown would take for markup, though people and models do not mean them so, are
replaced by stand-ins before parsing, which are letters to the parser, and restored in whatever
they stand, code as well. So HTML is never parsed, and neither are dollars.
"""

import re
from typing import Any

import pyromark

_WORD = r"[^\W\u0e00-\u0eff\u2e80-\u9fff\uac00-\ud7af]"  # not of scripts without spaces
_COMMAND = r"\\(?![bBdDsSwW](?![A-Za-z]))[^()\[\]\n]"  # of a formula, not \d
SIGNS = re.compile(
    rf"""
    ^(?:[ \t>]|[-*+][ ]|[0-9]{{1,9}}[.)][ ])*
      (?P<fence>```|~~~)[^`\n]*$(?s:.*?)(?:^[ \t>]*(?P=fence)|\Z)
    | (?P<code>(?<!\w)`[^`\n]+`(?!\w))
    # Formulas; without a sign of one, a bracket after a backslash is only no link, and $$ a price.
    | \\\((?=[^\\\n]*(?:[\^_={{}}]|{_COMMAND}))(?:[^\\\n]|\\[^()\n])+\\\)
    | \\\[(?=[^\\]*(?:[\^_={{}}]|{_COMMAND}))(?:[^\\\n]|\\[^\[\]]|\n(?![ \t]*\n))+\\\]
    | \$\$(?=[^$]*[\^_={{}}\\])(?:[^$\n]|\n(?![ \t]*\n))+\$\$
    | (?<![\w$])\$(?=[^$\n\\]*\\[A-Za-z{{}}])[^$\n]+\$(?!\w)
    # C:\path and \\server\path; any other backslash before a sign is an escape.
    | (?<![\w\\])[A-Za-z]:\\(?!\\)[^\s`*"'<>|,;)]*
    | (?<![\w\\])\\\\(?=\w[\w.-]*\\[\w$])
    # A word with a backslash before a letter has no escapes: ^\+\d+\.\d, src\*.py
    | \\[^\w\s\\](?=(?:[^\s`\\]|\\[^\w\s\\]){{0,40}}\\[A-Za-z])
    | \\[A-Za-z](?:\*(?!\*))?(?:[^\s\\`*_~|\]]|\\\S|\](?!\()|\*(?=[\w\\()$.\[]))*
    | (?P<escape>\\[!-/:-@\[-`{{-~])
    # **Sum: **5 and, at the start of a line, ** Sum:** 5
    | (?:^(?P<item>[ \t]*(?:(?:[-*+]|[0-9]{{1,9}}[.)])[ ]+)?)\*\*[ ]+|(?<![^\s(«|])\*\*)
      (?P<strong>[^\s*|](?:[^*|\n]*[^\s*|])?)
      (?P<gap>(?(item)|(?:[ ]+(?=\*\*(?!\w))|(?<=[:.!?…)»”—–-])[ ]+)))\*\*
    | <br[ ]?/?>  # as one sign: a line break in a table
    # Tags and comments, but not <https://…>, <me@…> and [text](<address>).
    | (?<!\]\()<(?!(?:[A-Za-z][A-Za-z0-9+.-]{{1,31}}:[^\s<>]*|[^\s<>@]{{1,64}}@[^\s<>@]+)>)
    | (?<!<)(?:https?://|www\.)[^\s<>()\[\]"'`|\\]*[^\s<>()\[\]"'`|\\*_~.,:;!?]
    | (?<!~)~(?!~)  # ~40
    | (?<={_WORD})\*(?={_WORD}|[(\[]) | (?<=[)\]])\*(?={_WORD}|[(\[])  # 2*3*4
    | (?<=[A-Za-z0-9)\]])\*\*(?=[A-Za-z0-9(])  # x**2
    | (?<![\w*])\*(?=\.\w) | (?<![^\s(])\*+(?=/) | (?<=/)\*+(?!\w)  # *.txt, /* and **/
    | (?<=["'«])\*+(?=["'»])  # "*"
    | (?<![\w*.])[A-Za-z_]\w*\.\*(?=[\w,?]) | (?<![^\s(^|/])\.\*  # a.*, foo.*bar, (.*)
    | (?<!\w)__[A-Za-z][A-Za-z0-9_]*__(?!\w)  # __init__
    | (?<!\w)_+(?=[.,:;/-])  # __.__.2026
    | (?<![\w*])[*^>-]_[*^<-](?![\w*]) | ¯\\_\(.\)_/¯  # faces
    | (?<=\]):  # [1]: address, which would vanish
    | &(?:[A-Za-z]*sp|shy|zwn?j|\#160|\#x[aA]0);  # &nbsp;, which nobody would see
    | ^[ \t]*(?:={{1,2}}|-{{1,2}})[ \t]*$  # no underlined heading
    | ^[ ]{{0,3}}>>>(?=[ ])  # Python's prompt
    # >5 and >=5, at the start of a line or of an item
    | (?P<before>^[ ]*(?:(?:[-*+]|[0-9]{{1,9}}[.)])[ ]+(?=>[ ]?[=0-9])|(?=>[=0-9])))>
    # Punctuation where emphasis ends or begins within a word: **Note:**text
    | [:.,;!?…»”"%）】」』》。，：；！？、](?=\*{{1,3}}\w)
    | (?<=[^\W_]\*\*)[«„“「『《（【]
    """,
    re.VERBOSE | re.MULTILINE,
)
BAR = re.compile(r"(?<!\\)\|")  # in code, where it would end the cell of a table
# Unicode's noncharacters; a text does not need them.
NONCHARACTERS = dict.fromkeys(range(0xFDD0, 0xFDF0))
STAND_IN = re.compile("\ufdd0([0-9]+)\ufdd1")


class Signs:
    """The signs of one text."""

    def __init__(self) -> None:
        """Start without any."""
        self._originals: list[str] = []

    def hide(self, markdown: str) -> str:
        """Return the text with stand-ins; linear in its length."""
        return SIGNS.sub(self._replace, markdown.translate(NONCHARACTERS))

    def split(self, text: str) -> list[str]:
        """Return a text of the parser in pieces, of which every second one is of the signs."""
        return [
            self._originals[int(piece)] if number % 2 else piece
            for number, piece in enumerate(STAND_IN.split(text))
        ]

    def restored(self, text: str) -> str:
        """Return a text of the parser with its signs."""
        return "".join(self.split(text))

    def _replace(self, match: re.Match[str]) -> str:
        if match["fence"] or match["escape"]:
            return match[0]
        if match["strong"]:
            inner = SIGNS.sub(self._replace, match["strong"])
            return f"{match['item'] or ''}**{inner}**{match['gap']}"
        if match["code"]:
            return BAR.sub(lambda bar: self._stand_in(bar[0]), match[0])
        before = match["before"] or ""
        return before + self._stand_in(match[0].removeprefix(before))

    def _stand_in(self, original: str) -> str:
        self._originals.append(original)
        return f"\ufdd0{len(self._originals) - 1}\ufdd1"


OPTIONS = pyromark.Options.ENABLE_TABLES | pyromark.Options.ENABLE_STRIKETHROUGH
MAX_DEPTH = 12  # nested elements; deeper ones become plain text
# A heading becomes a strong line, a picture its description.
IN_LINE = {"Strong": "strong", "Emphasis": "em", "Strikethrough": "s"}
BLOCKS = {"Paragraph": "p", "Heading": "strong", "BlockQuote": "blockquote", "CodeBlock": "pre"}
ROWS = {"Table": "table", "TableHead": "tr", "TableRow": "tr", "TableCell": "td", "Item": "li"}
ELEMENTS = IN_LINE | BLOCKS | ROWS
LINK = "link"
NAMES = frozenset({*ELEMENTS.values(), "ul", "ol", "code", "hr", LINK})
# A text; or the name of an element, one of NAMES, and the nodes in it. The first node of a link is
# its target, unchecked.
Node = str | list[Any]
MARKS: dict[str, Node] = {"SoftBreak": "\n", "HardBreak": "\n", "Rule": ["hr"]}


def parse_markdown(text: str) -> list[Node]:
    """Parse a text into nodes; HTML and what is no markup become text, as written."""
    signs = Signs()
    path: list[list[Any]] = [[]]  # open elements, the innermost last
    for event in pyromark.events(signs.hide(text), options=OPTIONS):
        if isinstance(event, str):
            _add_node(path[-1], MARKS.get(event, ""))
            continue
        [(kind, value)] = event.items()
        if kind == "Start" and len(path) > MAX_DEPTH:
            path.append(path[-1])
        elif kind == "Start":
            path.append(_open_element(path[-1], value, signs))
        elif kind == "End":
            path.pop()
        elif kind == "Code":
            _add_node(path[-1], ["code", signs.restored(str(value))])
        else:
            _add_node(path[-1], signs.restored(str(value)))
    return path[0]


def _open_element(parent: list[Any], tag: Any, signs: Signs) -> list[Any]:
    """Return the node to which the content of a tag is added."""
    if isinstance(tag, str):
        tag = {tag: None}
    [(kind, details)] = tag.items()
    match kind, details:
        case "Link", {"dest_url": address}:
            node = [LINK, signs.restored(address)]
        case "List", None:
            node = ["ul"]
        case "List", _:
            node = ["ol"]
        case _ if kind in ELEMENTS:
            node = [ELEMENTS[kind]]
        case _:
            return parent
    parent.append(["p", node] if kind == "Heading" else node)
    return node


def _add_node(inside: list[Any], node: Node) -> None:
    first = 1
    if inside[:1] == [LINK]:
        first = 2
    if isinstance(node, str) and len(inside) > first and isinstance(inside[-1], str):
        inside[-1] += node
    elif node:
        inside.append(node)
