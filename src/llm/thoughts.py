"""Separation of an answer from a model's thoughts, which are never shown, stored or sent back.

Thoughts may begin anywhere, and servers split their tags over any number of chunks: whatever may
become a tag is held back until it is known (partial matches of the package ``regex``).
"""

from typing import Any

import regex

# Brackets around the names of tags, as written and as escaped.
LEFT = r"(?:<[|｜]?|&lt;|＜|‹|⟨|◁)"
RIGHT = r"(?:[|｜]?>|&gt;|＞|›|⟩|▷)"
BEGINNINGS = regex.compile(r"[<&＜‹⟨◁\[`{]|^>|\A[aH]", regex.MULTILINE)  # of markup in text
ENDINGS = regex.compile(r"[<&＜‹⟨◁\[`aH]")  # first characters of what ends thoughts

# Names that nothing else has count anywhere; the others only at the start of a line, since
# ``<reason>`` within a sentence is a placeholder. A closing tag without an opening one ends
# thoughts that began with the reply: the server's template wrote the opening tag.

SURE = (
    r"(?:[\w▁-]{1,20}[:_▁-]|(?:start|begin|end)of)?(?:(?:ant)?think(?:ing)?|thoughts?)"
    r"(?:[_ -]?(?:process|block))?"
)
ENDS = r"end[_▁]?(?:of)?[_▁]?"
LIKELY = (
    r"(?:\w{1,20}_)?(?:reason(?:ing)?|rationale|reflection|analysis|planning|deliberation"
    r"|scratch_?pad|monologue|internal|cot)(?:_content)?"
)
BLOCKS = "key_facts|memories|wishes|history_summary"  # of the prompt, which small models echo
ECHOED = f"{LIKELY}|{BLOCKS}"
LINE_START = r"(?<=^[ \t]{0,40})"
# Opening and closing tag of each kind; other closing tags do not end its thoughts.
THOUGHTS: tuple[tuple[str, str], ...] = (
    (r"<\|START_THINKING\|>", r"<\|END_THINKING\|>"),  # Cohere
    (
        rf"{LEFT}\s{{0,9}}(?!{ENDS}){SURE}(?:\s[^<>\[\]]{{0,80}})?\s{{0,9}}{RIGHT}",
        rf"{LEFT}\s{{0,9}}(?:/|(?={ENDS}))\s{{0,9}}{SURE}\s{{0,9}}{RIGHT}"
        r"|(?=<tool_call>\s{0,9}\{)",  # some do not close them before a call
    ),
    (
        rf"{LINE_START}{LEFT}\s{{0,9}}(?:{ECHOED})\s{{0,9}}{RIGHT}",
        rf"{LEFT}\s{{0,9}}/\s{{0,9}}(?:{ECHOED})\s{{0,9}}{RIGHT}",
    ),
    (rf"{LEFT}(?:{BLOCKS}){RIGHT}\s{{0,9}}\{{", rf"{LEFT}/(?:{BLOCKS}){RIGHT}"),
    (r"\[(?:THINK|REASON)(?:ING)?\]", r"\[/(?:THINK|REASON)(?:ING)?\]"),  # Mistral
    (r"<details[^<>]{0,80}>\s{0,9}<summary>(?:think|thought|reason)", r"</details>"),  # Open WebUI
    (  # OpenAI's open models
        r"<\|channel\|>analysis(?:<\|message\|>)?",
        r"<\|end\|>|(?=<\|channel\|>(?:commentary|final))",
    ),
    (r"<\|channel>thought\n?", r"<channel\|>"),  # Gemma 4
    (r"<unused94>(?:thought)?", r"<unused95>"),  # MedGemma
    # OpenAI's, without its special tokens
    (r"\Aanalysis(?=(?-i:[A-ZА-Я]))", r"assistantfinal|assistant(?=commentary to=)"),
    (r"\AHere is my thought process:", r"Here is my response:\s{0,9}"),  # Granite
    # What a model without a stop makes up of the next turn.
    (
        r"<\|(?:im_)?start\|>user|<start_of_turn>user|<\|(?:user|endoftext)\|>"
        r"|<\|start_header_id\|>user|<｜User｜>",
        r"(?!)",
    ),
)
UNANNOUNCED = (
    rf"{LEFT}\s{{0,9}}/\s{{0,9}}{SURE}\s{{0,9}}{RIGHT}|\[/THINK(?:ING)?\]"
    rf"|{LINE_START}{LEFT}\s{{0,9}}/\s{{0,9}}(?:{LIKELY})\s{{0,9}}{RIGHT}"
)
# Control tokens of templates and records of the prompt, dropped wherever they stand outside code.
TOKENS = (
    r"<[|｜](?:im_end|eo[tm]_id|end|return|end▁of▁sentence)[|｜]>"
    r"|<\|(?:im_)?start\|>\w*|<\|start_header_id\|>\w*<\|end_header_id\|>\s{0,9}"
    r"|<end_of_turn>|<turn\|>|\[/INST\]|</s>\s{0,9}\Z|>>>all\n"
    r"|<\|channel\|>(?:final|commentary)(?:\s?<\|constrain\|>\w*\s?)?<\|message\|>"
    r"|<\|(?!\w*(?:tool|python|action|plugin|recipient|content|function|channel|think|header))\w{2,30}\|>"
    r"|\[?\{(?:\"?n\"?: ?\d{1,4}, ?)?\"?id\"?: ?\"(?:fact|msg|summary|reminder)-\d{1,20}\""
    r"[^{}]{0,4000}\}\]?\n?"
)
WRAPPER = r"</?(?:final_)?(?:answer|response|output)>\n?"  # of the answer, after thoughts
CODE = r"(?P<fence>```)|(?P<code>`[^`\n]{1,200}`)"
IN_TEXT = regex.compile(
    "|".join(
        [
            CODE,
            *(f"(?P<kind{n}>{opening})" for n, (opening, _) in enumerate(THOUGHTS)),
            f"(?P<unannounced>{UNANNOUNCED})",
            f"(?P<token>{TOKENS})",
            f"(?P<wrapper>{WRAPPER})",
        ]
    ),
    regex.IGNORECASE | regex.MULTILINE,
)
MENTIONED = regex.compile(
    rf"{LEFT}/?(?:{SURE}|{LIKELY}|channel|(?:im_)?start){RIGHT}|\[/?THINK(?:ING)?\]",
    regex.IGNORECASE,
)
MAX_SUSPECT = 20_000  # characters that are held back as possible thoughts
MAX_BEFORE = 40  # characters before markup that are looked at
IN_CODE = regex.compile("(?P<fence>```)")
IN_THOUGHT = tuple(
    regex.compile(f"(?P<end>{closing})", regex.IGNORECASE | regex.MULTILINE)
    for _, closing in THOUGHTS
)


class ThoughtFilter:
    """Passes on the text of a reply without its thoughts.

    Attributes:
        has_thoughts: True after the first thought.
        was_unannounced: True if thoughts ended that had no opening tag.
    """

    def __init__(self, *, may_be_unannounced: bool = False, asked: str = "") -> None:
        """Expect a reply.

        Args:
            may_be_unannounced: Hold back everything until it is certain to be text.
            asked: What the user wrote: of tags that they speak of, an answer may speak too.
        """
        self._are_words = MENTIONED.search(asked) is not None
        self.has_thoughts = False
        self.was_unannounced = False
        self._suspects = may_be_unannounced
        self._kind: int | None = None  # of the thoughts that are being read
        self._is_code = False
        self._rest = ""
        self._before = ""  # the end of what was read
        self._text = ""
        self._has_text = False  # True after the first visible text

    @property
    def is_thinking(self) -> bool:
        """True while thoughts, or what may be some, arrive."""
        return self._kind is not None or (self._suspects and bool(self._text))

    def feed(self, text: str) -> str:
        """Add a chunk; return the text that is certain not to be thoughts."""
        self._rest += text
        self._read(is_end=False)
        self._suspects = self._suspects and len(self._text) <= MAX_SUSPECT
        if self._suspects:
            return ""
        return self._take()

    def flush(self) -> str:
        """Return the rest of the text at the end of the reply."""
        self._read(is_end=True)
        return self._take()

    def _take(self) -> str:
        text, self._text = self._text, ""
        return text

    def _read(self, *, is_end: bool) -> None:
        """Handle the markup in what was read; keep what may be the beginning of some."""
        text, position = self._before + self._rest, len(self._before)
        while position < len(text):
            start, match = self._find(text, position, is_end=is_end)
            self._add(text[position:start])
            position = start
            if match is None:
                break
            self._handle(match.lastgroup or "", match.group())
            position = match.end()
        self._before, self._rest = text[max(0, position - MAX_BEFORE) : position], text[position:]

    def _find(self, text: str, position: int, *, is_end: bool) -> tuple[int, Any]:
        """Return where the next markup begins, and its match; no match if it is incomplete."""
        pattern, beginnings = IN_TEXT, BEGINNINGS
        if self._kind is not None:
            pattern, beginnings = IN_THOUGHT[self._kind], ENDINGS
        elif self._is_code:
            pattern = IN_CODE
        for beginning in beginnings.finditer(text, position):
            match = pattern.match(text, beginning.start(), partial=not is_end)
            if match is None:
                continue
            if not is_end and match.end() == len(text):  # it may go on
                match = None
            return beginning.start(), match
        return len(text), None

    def _add(self, text: str) -> None:
        if self._kind is None:
            if self.has_thoughts and not self._has_text:
                text = text.lstrip()
            self._text += text
            self._has_text = self._has_text or bool(text)

    def _is_text(self, kind: str) -> bool:
        """Return True for code, and for a tag amid an answer to a question about tags."""
        if kind == "code" or (kind == "wrapper" and not self.has_thoughts):
            return True
        return self._are_words and self._has_text and not self._suspects and kind != "end"

    def _handle(self, kind: str, text: str) -> None:
        if kind == "fence":
            self._is_code = not self._is_code
            self._add(text)
        elif self._is_text(kind):
            self._add(text)
        elif kind == "end":
            self._kind = None
        elif kind == "unannounced":
            self._text, self._has_text = "", False
            self.has_thoughts = self.was_unannounced = True
            self._suspects = False
        elif kind.startswith("kind"):
            self._kind = int(kind.removeprefix("kind"))
            self.has_thoughts = True
            self._suspects = False  # this model announces them


def without_thoughts(text: str) -> str:
    """Return a whole reply without its thoughts."""
    thoughts = ThoughtFilter()
    return thoughts.feed(text) + thoughts.flush()
