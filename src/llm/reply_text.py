"""Text of a reply as it may be shown: without thoughts, control tokens and tool calls.

Thoughts and calls may begin anywhere, and servers split their markup over any number of chunks:
whatever may become some is held back until it is known (partial matches of the package ``regex``).
From the first opening of a call on, everything is held back and read at the end.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import regex

from src.llm.text_calls import TextCall, compile_opening, read_text_calls

# Brackets around the names of tags, as written and as escaped.
LEFT = r"(?:<[|｜]?|&lt;|＜|‹|⟨|◁)"
RIGHT = r"(?:[|｜]?>|&gt;|＞|›|⟩|▷)"
ENDINGS = regex.compile(r"[<&＜‹⟨◁\[`aHt]")  # first characters of what ends thoughts

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
# Of the prompt, which small models echo.
BLOCKS = "key_facts|memories|wishes|history_summary|tool_(?:response|result)s?"
ECHOED = f"{LIKELY}|{BLOCKS}"
ATTRIBUTES = r"(?:\s[^<>\[\]]{0,80})?"
LINE_START = r"(?<=^[ \t]{0,40})"
# Opening and closing tag of each kind; other closing tags do not end its thoughts.
THOUGHTS: tuple[tuple[str, str], ...] = (
    (
        rf"{LEFT}\s{{0,9}}(?!{ENDS}){SURE}{ATTRIBUTES}\s{{0,9}}{RIGHT}",
        rf"{LEFT}\s{{0,9}}(?:/|(?={ENDS}))\s{{0,9}}{SURE}\s{{0,9}}{RIGHT}"
        # some do not close them before a call
        r"|(?=<(?:\w{1,20}:)?tool_call>\s{0,9}(?:[{<]|\w{1,60}\s{0,9}<arg_key))",
    ),
    (
        rf"{LINE_START}{LEFT}\s{{0,9}}(?:{ECHOED}){ATTRIBUTES}\s{{0,9}}{RIGHT}",
        rf"{LEFT}\s{{0,9}}/\s{{0,9}}(?:{ECHOED})\s{{0,9}}{RIGHT}",
    ),
    (rf"{LEFT}(?:{BLOCKS}){RIGHT}\s{{0,9}}\{{", rf"{LEFT}/(?:{BLOCKS}){RIGHT}"),
    (r"\[(?:THINK|REASON)(?:ING)?\]", r"\[/(?:THINK|REASON)(?:ING)?\]"),  # Mistral
    # Open WebUI
    (
        r"<details[^<>]{0,80}>\s{0,9}<summary>(?:(?:reason|think)ing|thought(?: for|<))",
        r"</details>",
    ),
    (  # OpenAI's open models
        r"<\|channel\|>analysis(?:<\|message\|>)?",
        r"<\|end\|>|(?=<\|channel\|>(?:commentary|final))|(?<=<\|channel\|>analysis )(?=to=)",
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
UID = r"(?:fact|msg|summary|reminder)-\d{1,20}"
LABEL = rf"(?:n\s?[=:]\s?\d{{1,4}}|u?id\s?[=:]\s?[\"']?{UID}[\"']?)"
TOKENS = (
    r"<\|(?:im_)?start\|>\w*"
    r"|<\|start_(?:header_id|of_role)\|>\w*<\|end_(?:header_id|of_role)\|>\s{0,9}"
    r"|<end_of_turn>|<turn\|>|\[/INST\]|</s>\s{0,9}\Z|>>>all\n|<[be]os>|\[\|\w{2,30}\|\]"
    r"|\Aassistant(?::\s|\n)\s{0,9}"
    r"|<\|channel\|>(?:final|commentary)(?:\s?<\|constrain\|>\w*\s?)?<\|message\|>"
    r"|<[|｜](?![\w▁]*(?:tool|python|action|plugin|recipient|content|function|channel|think|header|role))"
    r"[\w▁]{2,30}[|｜]>"
    rf"|\[?\{{(?:\"?n\"?: ?\d{{1,4}}, ?)?\"?id\"?: ?\"{UID}\"[^{{}}]{{0,4000}}\}}\]?\n?"
    rf"|[(\[](?=[^()\[\]]{{0,40}}{UID}){LABEL}(?:[,;] ?{LABEL}){{0,9}}[)\]]"
    rf"|\({UID}(?:, ?{UID}){{0,9}}\)"
)
WRAPPER = r"</?(?:final_)?(?:answer|response|output)>\n?"  # of the answer, after thoughts
CODE = r"(?P<fence>```)|(?P<code>`[^`\n]{1,200}`)"
KINDS = "|".join(f"(?P<kind{n}>{opening})" for n, (opening, _) in enumerate(THOUGHTS))
IN_TEXT = regex.compile(
    f"{CODE}|{KINDS}|(?P<unannounced>{UNANNOUNCED})|(?P<token>{TOKENS})|(?P<wrapper>{WRAPPER})",
    regex.IGNORECASE | regex.MULTILINE,
)
MENTIONED = regex.compile(  # in questions about markup
    rf"{LEFT}/?(?:{SURE}|{LIKELY}|channel|(?:im_)?start){RIGHT}|\[/?[A-Z]{{3,9}}\]"
    r"|\b(?:tags?|tokens?|тег\w{0,3}|токен\w{0,3}|html|xml|json)\b",
    regex.IGNORECASE,
)
MAX_HELD = 20_000  # characters held back as possible thoughts or calls; a longer text is text
MAX_BEFORE = 40  # characters before markup that are looked at
IN_CODE = regex.compile("(?P<fence>```)")
IN_THOUGHT = tuple(
    regex.compile(f"(?P<end>{closing})", regex.IGNORECASE | regex.MULTILINE)
    for _, closing in THOUGHTS
)


class ReplyText:
    """Passes on the text of a reply without its thoughts and calls.

    Attributes:
        has_thoughts: True after the first thought.
        was_unannounced: True if thoughts ended that had no opening tag.
        thoughts: The pieces of the announced ones.
    """

    def __init__(
        self,
        offered: Mapping[str, Collection[str]] | None = None,
        prompt: Iterable[str] = (),
        *,
        may_think_first: bool = False,
        asked: str = "",
    ) -> None:
        """Expect a reply.

        Args:
            offered: Names of the tools that it may call, with the names of their parameters.
            prompt: The texts that it answers: what is copied from them is no call.
            may_think_first: Hold back everything until it is certain to be text.
            asked: What the user wrote: of tags that they speak of, an answer may speak too.
        """
        self._offered, self._prompt = offered or {}, prompt
        self._call_opening, self._call_beginning = compile_opening(self._offered)
        self._asked = asked
        self._are_words = MENTIONED.search(asked) is not None
        self.has_thoughts = False
        self.was_unannounced = False
        self.thoughts: list[str] = []
        self._suspects = may_think_first
        self._kind: int | None = None  # of the thoughts that are being read
        self._is_code = False
        self._rest = ""
        self._before = ""  # the end of what was read
        self._kept: list[str] = []  # text that was passed on
        self._text = ""  # text that is not passed on yet
        self._calls_at: int | None = None  # where in it calls begin

    @property
    def kept(self) -> str:
        """The text that was passed on, without thoughts that ended in it."""
        return "".join(self._kept)

    @property
    def is_thinking(self) -> bool:
        """True while thoughts, or what may be some, arrive."""
        return self._kind is not None or (self._suspects and bool(self._text))

    def feed(self, text: str) -> str:
        """Add a chunk; return the text that is certain to be shown."""
        self._rest += text
        self._read(is_end=False)
        if len(self._text) > MAX_HELD:
            self._suspects, self._offered, self._calls_at = False, {}, None
        end = self._calls_at
        if end is None:
            end = len(self._text)
        is_blank = not (self._kept or self._text[:end].strip())  # dropped if calls follow
        if self._suspects or is_blank:
            return ""
        return self._pass_on(end)

    def flush(self) -> tuple[str, list[TextCall]]:
        """Return the rest of the text at the end of the reply, and the calls in it."""
        self._read(is_end=True)
        calls = None
        if self._calls_at is not None:
            held = self._text[self._calls_at :]
            calls = read_text_calls(held, self._offered, self._prompt)
        names = {name for name, _ in calls or ()}
        is_example = any(name in self._asked for name in names)
        if calls is None or is_example or (self._are_words and names.isdisjoint(self._offered)):
            return self._pass_on(len(self._text)), []
        self._text = self._text[: self._calls_at]
        if not (self._kept or self._text.strip()):
            self._text = ""
        return self._pass_on(len(self._text)), calls

    def _pass_on(self, end: int) -> str:
        text, self._text = self._text[:end], self._text[end:]
        if self._calls_at is not None:
            self._calls_at -= len(text)
        self._kept.append(text)
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
        pattern, beginnings, may_call = IN_TEXT, self._call_beginning, False
        if self._kind is not None:
            pattern, beginnings = IN_THOUGHT[self._kind], ENDINGS
        elif self._is_code:
            pattern = IN_CODE
        else:
            may_call = bool(self._offered) and self._calls_at is None
        for beginning in beginnings.finditer(text, position):
            start = beginning.start()
            match = pattern.match(text, start, partial=not is_end)
            if may_call and (match is None or match.lastgroup == "fence"):  # calls may be fenced
                match = self._call_opening.match(text, start, partial=not is_end) or match
            if match is None:
                continue
            if not is_end and match.end() == len(text):  # it may go on
                match = None
            return start, match
        return len(text), None

    def _add(self, text: str) -> None:
        if self._kind is not None:
            self.thoughts.append(text)
            return
        if self.has_thoughts and not (self._text or self._kept):
            text = text.lstrip()
        self._text += text

    def _is_text(self, kind: str) -> bool:
        """Return True for code, and for a tag amid an answer to a question about tags."""
        if kind == "code" or (kind == "wrapper" and not self.has_thoughts):
            return True
        has_text = bool(self._text or self._kept)
        return self._are_words and has_text and not self._suspects and kind not in ("end", "call")

    def _handle(self, kind: str, text: str) -> None:
        if kind == "fence":
            self._is_code = not self._is_code
            self._add(text)
        elif kind == "call":
            self._calls_at = len(self._text)
            self._is_code = text.startswith("```")
            self._add(text)
        elif self._is_text(kind):
            self._add(text)
        elif kind == "token" and self._calls_at is None:
            self._text = self._text.rstrip(" ")
        elif kind == "end":
            self._kind = None
        elif kind == "unannounced":  # all before it was thoughts
            self._kept, self._text, self._calls_at = [], "", None
            self.has_thoughts = self.was_unannounced = True
            self._suspects = False
        elif kind.startswith("kind"):
            self._kind = int(kind.removeprefix("kind"))
            self.has_thoughts = True
            self._suspects = False  # this model announces them


def without_thoughts(text: str) -> str:
    """Return a whole reply without its thoughts."""
    reply = ReplyText()
    return reply.feed(text) + reply.flush()[0]
