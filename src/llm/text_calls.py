"""Tool calls that a model writes as text, because it or its server lacks support for calls.

They may stand anywhere in a reply. From the first opening of a dialect on, the reply is held back
and read at its end; what follows the calls guesses their results, and is dropped with them. Calls
copied from the prompt stay text: they quote others.
"""

import ast
import html
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from typing import Any

import regex

from src.llm.loose_json import decode, read_object, read_values, repair

MAX_HELD = 20_000  # characters that may be calls; a longer reply is text
# The only argument of a call with unreadable arguments; no tool has an argument of this name.
UNREADABLE = "unreadable arguments"
MAX_SHOWN = 200  # characters of unreadable arguments that are returned to the model
NAME_KEYS = ("name", "function", "tool", "tool_name", "function_name", "action", "recipient_name")
ARGUMENTS = (
    *("arguments", "parameters", "args", "params", "input"),
    *("tool_input", "tool_args", "action_input"),
)
NESTING = (
    *("function", "function_call", "functionCall", "tool_call"),
    *("tool_calls", "tools", "calls", "tool_uses"),
)
# Keys beside arguments that are written without a key of their own.
BESIDE_ARGUMENTS = frozenset({*NAME_KEYS, *ARGUMENTS, "id", "type"})

TextCall = tuple[str, dict[str, Any]]

# Brackets of tags, as written and as escaped, and what may precede a name in them.
LEFT = r"(?:</?[|｜]?|&lt;/?|＜/?|‹/?|⟨/?|\[/?)"
RIGHT = r"(?:[|｜]?>|&gt;|＞|›|⟩|\])"
PREFIX = r"(?:[\w-]+:|[|｜]?DSML[|｜])?"

# The dialects: how calls begin, of which NAMES are offered, with these PARAMETERS. After a sure
# opening no text is shown, even if it cannot be read; the others may begin something else.
KEYS, GIVEN = "|".join(NAME_KEYS), "|".join(ARGUMENTS)
GAP = r"\s{0,9}"  # bounded, so that a hostile reply takes no longer than another
CALLED = r"(?:(?:functions|default_api)\.)?(?:NAMES)"
CALL_TAG = (
    rf"{LEFT}{PREFIX}(?:tool[_▁]?calls?|tool_use|tools|function_?calls?|invoke|TOOL_REQUEST)"
    rf"(?:[▁_ ][^<>\n]{{0,400}})?{RIGHT}"
)
LABEL = r"(?:tool|function|action|name)(?:[ _](?:call|name))?\*{0,2}:[*`\"' ]{0,5}"
QUOTE = "[\"'“”]"
OBJECT = (
    r"[{\[][\s{\[]{0,20}(?:(?://|#)[^\n]{0,80}\s{0,20})?"
    rf"(?:{QUOTE}(?:id|type|role|content|tool_call_id|thoughts?|reasoning){QUOTE}"
    rf"{GAP}:{GAP}(?:{QUOTE}[^\"'“”]{{0,500}}{QUOTE}|null){GAP},{GAP}){{0,3}}"
)
SURE = (
    # <tool_call>…, <tools>…, <function_calls><invoke name="…">…, <｜tool▁calls▁begin｜>…; within
    # a sentence, only before what may be calls
    rf"(?<![^\n]){CALL_TAG}|{CALL_TAG}(?={GAP}(?:[\[{{<]|(?:NAMES)\b))",
    # <function=x>…, [function="x"]…, <tool name="x">…
    rf"{LEFT}{PREFIX}\w{{1,20}}(?:\s{{1,9}}name)?{GAP}={GAP}[\"']?(?:NAMES)[\"']?{GAP}{RIGHT}",
    rf"<(?:function|tool|action)>{GAP}<(?:\w+_)?name>",  # <function><name>x</name>…
    rf"<function={GAP}(?:NAMES){GAP}[(\[{{]",  # <function=x{…
    # {"name": "x", "arguments": {…}}, also in a list, and with other keys before
    rf"{OBJECT}{QUOTE}?(?:{KEYS}){QUOTE}?{GAP}:{GAP}{QUOTE}{CALLED}{QUOTE}",
    # Control tokens, and what models without any write instead.
    r"<\|(?:python_\w{1,9}|(?:start_)?action(?:_start)?|recipient|tool_call)(?:\|>|>)",
    rf"(?:<\|channel\|>)?(?:assistant)?commentary{GAP}to=|to=(?:functions\.)?(?:NAMES)\b",
    r"(?:function)?<｜tool▁sep｜>",
    rf"<\|channel\|>commentary|<start_function_call>|✿FUNCTION✿|\bfunctools{GAP}\[",
    rf"\bAction:{GAP}(?:(?:NAMES)\b|(?:```json{GAP})?[\[{{])|>>>(?:NAMES)\s",
)
UNSURE = (
    rf"{OBJECT}[\"'](?:{GIVEN})[\"']{GAP}:",  # {"arguments": {…}, "name": "x"}
    rf"{OBJECT}[\"'](?:{'|'.join(NESTING)})[\"']{GAP}:{GAP}[{{\[]",  # {"function": {…}}
    rf"{OBJECT}[\"'](?:NAMES)[\"']{GAP}:{GAP}\{{",  # {"x": {…}}
    rf"{OBJECT}[\"'](?:PARAMETERS)[\"']{GAP}:",  # {"a": …}, the arguments alone
    r"<(?:NAMES)>",  # <x><a>…</a></x>
    r"\bThought:",  # …, Action: x, Action Input: {…}
    rf"(?:NAMES)[ \t]{{0,9}}\n{GAP}\{{",  # x and its arguments in the next line
    rf"(?:\[|print\()?{CALLED}(?:\.call)?\(",  # x(a="…"), [x(a="…")]
    rf"\*{{0,2}}{LABEL}(?:NAMES)\b",  # Tool: x, and its arguments in YAML
)
FENCE = r"(?:```(?:json|xml|yaml|function|tool_\w{1,10})?\s{0,9})?"
SURE_OPENING = f"{FENCE}(?:{'|'.join(SURE)})"
OPENING = f"{FENCE}(?:{'|'.join(SURE + UNSURE)})"
CODE = regex.compile(r"`[^`\n]{1,200}`")  # in a line
BEGINNINGS = (
    r"[<&＜‹⟨\[{`✿]|>>>|\*{0,2}\b(?:action|thought|tool|function|name)\b|\bto=|\b(?:assistant)?commentary"
    r"|\b(?:print|func|default_api|NAMES)|\b\w{1,40}\Z"
)


# A call in a text: its name, its arguments, and what it was read from.
Found = tuple[str, dict[str, Any], str]


def _read_json(text: str, names: frozenset[str]) -> Iterator[Found]:
    """Read objects that have a name and arguments."""
    for value, source in read_values(text):
        for name, arguments in _calls_in(value, names):
            yield name, arguments, source


def _calls_in(value: Any, names: Collection[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, list):
        for entry in value:
            yield from _calls_in(entry, names)
    if not isinstance(value, dict):
        return
    written = (value[key] for key in NAME_KEYS if isinstance(value.get(key), str))
    name = find_name(next(written, ""), names)
    given = next((value[key] for key in ARGUMENTS if key in value), None)
    if name in names and "description" not in value:
        others = {key: value[key] for key in value.keys() - BESIDE_ARGUMENTS}
        yield name, others if given is None else _as_arguments(given)
        return
    for key, entry in value.items():
        if key in names and isinstance(entry, dict):
            yield key, entry
        elif key in NESTING:
            yield from _calls_in(entry, names)


def _as_arguments(value: Any) -> dict[str, Any]:
    """Return arguments that are an object, JSON in a text (as in OpenAI's protocol), or null."""
    found = value
    if isinstance(value, str):
        found = read_object(value) if value.strip() else {}
    elif value is None or value == []:
        return {}
    if isinstance(found, dict):
        return found
    return {UNREADABLE: str(value)[:MAX_SHOWN]}


def find_name(written: str, names: Collection[str]) -> str:
    """Return the tool that a model means: ``functions.x``, ``x()``, ``X<|channel|>json``.

    A name that means none, or several, stays as it is.
    """
    if written in names or " " in written.strip():
        return written
    plain = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", written)  # setReminder
    found = [
        name
        for name in names
        if re.search(rf"(?<!\w){re.escape(name)}(?!\w)", f"{written} {plain}", re.IGNORECASE)
    ]
    if len(found) == 1:
        return found[0]
    return written


def _spans(pattern: Any, text: str) -> Iterator[tuple[Any, int]]:
    """Yield each match, and where the next one begins."""
    heads = list(pattern.finditer(text))
    ends = [*(head.start() for head in heads[1:]), len(text)]
    return zip(heads, ends, strict=False)


def _read_tags(text: str, names: frozenset[str]) -> Iterator[Found]:
    """Read tags around a name, up to the next such tag: ``<function=x>``, ``<name>x</name>``."""
    tags = text.translate(BRACKETS).replace("&lt;", "<").replace("&gt;", ">")
    for head, end in _spans(_compile(HEAD, names), tags):
        name = next(group for group in head.groups() if group)
        yield name, _read_body(tags[head.end() : end]), tags[head.start() : end]


BRACKETS = str.maketrans("＜‹⟨＞›⟩", "<<<>>>")

HEAD = (
    rf"{LEFT}{PREFIX}\w{{1,20}}(?:\s+name)?\s*=\s*[\"']?(NAMES)[\"']?[^<>\[\]\n]{{0,40}}{RIGHT}"
    rf"|{LEFT}(?:\w+_)?name{RIGHT}\s*(NAMES)\s*{LEFT}|<(NAMES)>"
    rf"|{LEFT}tool_call{RIGHT}\s*(NAMES)\b(?!\()"
)
# An argument: <parameter=a>…</parameter>, <parameter name="a">…, <arg_key>a</arg_key>
# <arg_value>…</arg_value>, <a>…</a>.
STRUCTURE = "|".join((*NESTING, *ARGUMENTS, *NAME_KEYS, "invoke", "function_calls", "argument"))
PAIRS = re.compile(
    rf"{LEFT}{PREFIX}(?:parameter|param|argument|arg)(?:\s+name)?\s*=\s*[\"']?"
    rf"(?P<k1>[\w.-]{{1,60}})[\"']?[^<>\[\]\n]{{0,40}}{RIGHT}(?P<v1>.*?)"
    rf"(?={LEFT}{PREFIX}(?:parameter|param|argument|arg|function|invoke)\b)"
    rf"|{LEFT}arg_key{RIGHT}\s*(?P<k2>\w{{1,60}})\s*{LEFT}arg_key{RIGHT}\s*"
    rf"{LEFT}arg_value{RIGHT}(?P<v2>.*?){LEFT}arg_value{RIGHT}"
    rf"|<(?!(?:{STRUCTURE})>)(?P<k3>[A-Za-z_]\w{{0,60}})>(?P<v3>.*?)</(?P=k3)>",
    re.DOTALL,
)
TAG = re.compile(r"<(?P<tag>[A-Za-z_]\w{0,60})>(?P<text>.*?)</(?P=tag)>", re.DOTALL)
EMPTY_TAG = re.compile(r"<[A-Za-z_]\w{0,60}\s*/>")
ANY_TAG = re.compile(rf"{LEFT}[^<>\[\]]{{0,60}}{RIGHT}|```")


def _read_body(body: str) -> dict[str, Any]:
    """Return the arguments between two heads: pairs of tags, an object, or none."""
    values = {}
    for pair in PAIRS.finditer(body):
        key, value = next((pair[f"k{n}"], pair[f"v{n}"]) for n in (1, 2, 3) if pair[f"k{n}"])
        values[key] = _read_value(value)
    if values or not ANY_TAG.sub("", body).strip():
        return values
    value, _ = decode(body, max(0, body.find("{")))
    if isinstance(value, dict):
        return value
    return {UNREADABLE: body.strip()[:MAX_SHOWN]}


def _read_value(text: str) -> Any:
    """Return an argument: a list or an object if it is JSON or tags, else its text."""
    value = html.unescape(text.strip())
    tags = EMPTY_TAG.sub("", value)
    if tags.startswith("<") and not TAG.sub("", tags).strip():
        nested: dict[str, list[Any]] = {}
        for tag in TAG.finditer(tags):
            nested.setdefault(tag["tag"], []).append(_read_value(tag["text"]))
        return {tag: rows if len(rows) > 1 else rows[0] for tag, rows in nested.items()}
    decoded, end = decode(value, 0) if value[:1] in ("[", "{") else (None, 0)
    if decoded is None or end < len(value):
        return value
    return decoded


def _read_named(text: str, names: frozenset[str]) -> Iterator[Found]:
    """Read a name and, after some marks, an object: ``[TOOL_CALLS]x[ARGS]{…}``."""
    end = 0
    for match in _compile(NAMED, names).finditer(text):
        if match.start() >= end:
            value, end = decode(text, match.end() - 1)
            if value is None:
                value, end = repair(text[match.end() - 1 :]), len(text)
            if isinstance(value, dict):
                yield match[1], value, text[match.start() : end]


NAMED = r"(?<![\w.])(?:functions\.)?(NAMES)\b[^{}]{0,80}\{"


# x{a:<escape>…<escape>,b:5}, of Gemma: its marks of texts, or none.
ESCAPED = r"\bcall:(NAMES)\{"
ESCAPED_PAIR = regex.compile(
    r"(\w{1,60}):(?:<escape>(.*?)<escape>|<\|\"\|>(.*?)<\|\"\|>|([^,{}<]{0,200}))", regex.DOTALL
)


def _read_escaped(text: str, names: frozenset[str]) -> Iterator[Found]:
    """Read Gemma's calls: ``call:x{a:<escape>…<escape>}``."""
    for head, end in _spans(_compile(ESCAPED, names), text):
        pairs = ESCAPED_PAIR.finditer(text, head.end(), end)
        values = {pair[1]: next(v for v in pair.groups()[1:] if v is not None) for pair in pairs}
        yield head[1], values, text[head.start() : end]


YAML_PAIR = re.compile(r"^[ \t-]*(\w{1,60}):[ \t]*(\S.*)$", re.MULTILINE)


def _read_yaml(text: str, names: frozenset[str]) -> Iterator[Found]:
    """Read a name and, in the lines below it, a key before each argument."""
    for head, end in _spans(_compile(rf"\b{LABEL}(NAMES)\b", names), text):
        body = text[head.end() : end]
        values = {key: value.strip().strip("\"'") for key, value in YAML_PAIR.findall(body)}
        has_arguments = re.search(rf"(?mi)^\W{{0,9}}(?:{GIVEN}):\s*$", body)
        if has_arguments and "description" not in values:
            yield head[1], values, text[head.start() : end]


def _read_python(text: str, names: frozenset[str]) -> Iterator[Found]:
    """Read calls in Python: ``x(quote="…", limit=5)``."""
    for match in _compile(r"\b(NAMES)(?:\.call)?\(", names).finditer(text):
        ends = [found.end() for found in re.finditer(r"\)", text[match.start() :])]
        for end in ends[:50]:
            source = text[match.start() : match.start() + end]
            try:
                call: Any = ast.parse(source, mode="eval").body
                if call.args:  # the tools are called by keywords only
                    break
                arguments = {word.arg: _read_literal(word.value) for word in call.keywords}
            except (ValueError, SyntaxError, RecursionError, MemoryError):
                continue
            yield match[1], arguments, source
            break


def _read_literal(node: ast.expr) -> Any:
    """Return a value of Python, or null, true or false.

    Raises:
        ValueError: It is none.
    """
    if isinstance(node, ast.Name) and node.id in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[node.id]
    return ast.literal_eval(node)


def _read_bare_arguments(
    text: str, offered: Mapping[str, Collection[str]]
) -> list[TextCall] | None:
    """Return calls without their tool's name, if the text is nothing but their arguments.

    One tool must fit alone.
    """
    calls, rest = [], re.sub(r"```\w*", "", text).strip()
    while rest:
        value, end = decode(rest, 0)
        if not isinstance(value, list):
            value = [value]
        for entry in value:
            if not isinstance(entry, dict) or not entry:
                return None
            fitting = [name for name, known in offered.items() if entry.keys() <= set(known)]
            if len(fitting) != 1:
                return None
            calls.append((fitting[0], entry))
        rest = rest[end:].strip()
    return calls


def _read_loose_json(text: str, names: frozenset[str]) -> Iterator[Found]:
    """Read JSON with trailing commas, single quotes and the like, unless it is truncated."""
    for name, arguments in _calls_in(repair(text), names):
        yield name, arguments, text


Reader = Callable[[str, frozenset[str]], Iterator[Found]]
READERS: tuple[Reader, ...] = (
    _read_json,
    _read_tags,
    _read_escaped,
    _read_python,
    _read_named,
    _read_yaml,
    _read_loose_json,
)


@lru_cache(maxsize=256)
def _compile(
    pattern: str, names: frozenset[str], parameters: frozenset[str] = frozenset()
) -> regex.Pattern[str]:
    """Compile a pattern with the names of the offered tools and of their parameters."""
    for placeholder, words in (("NAMES", names), ("PARAMETERS", parameters)):
        longest_first = sorted(words, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, longest_first)) or "(?!)"
        pattern = pattern.replace(placeholder, alternatives)
    return regex.compile(pattern, regex.IGNORECASE)


class TextCalls:
    """Passes on the text of a reply, but holds it back from the first opening of a call on."""

    def __init__(self, offered: Mapping[str, Collection[str]], prompt: Iterable[str] = ()) -> None:
        """Detect calls of the tools ``offered``, unless copied from ``prompt``.

        Args:
            offered: Names of tools, with the names of their parameters.
            prompt: The texts that the reply answers.
        """
        names, parameters = frozenset(offered), frozenset().union(*offered.values())
        self._offered = offered
        self._prompt = prompt
        self._opening = _compile(OPENING, names, parameters)
        self._beginning = _compile(BEGINNINGS, names)
        self._before = ""  # the last character that was passed on
        self._held = ""
        self._has_begun = False
        self._is_code = False

    def feed(self, text: str) -> str:
        """Add a chunk; return the text that is certain not to be calls."""
        if not self._offered:
            return text
        self._held += text
        if self._has_begun and len(self._held) <= MAX_HELD:
            return ""
        return self._release(self._find_opening(is_end=False))

    def flush(self) -> tuple[str, list[TextCall]]:
        """Return the rest at the end of the reply: text, or the calls that it contains."""
        if not self._offered:
            return "", []
        text = self._release(self._find_opening(is_end=True))
        rest, self._held = self._held, ""
        if not rest or len(rest) > MAX_HELD:
            return text + rest, []
        calls = read_text_calls(rest, self._offered, self._prompt)
        if calls is None:
            return text + rest, []
        return text, calls

    def _find_opening(self, *, is_end: bool) -> int:
        """Return where calls begin, or may begin if more follows."""
        if not (self._before or self._held.strip() or is_end):
            return 0  # blanks before calls are dropped with them
        text, position = self._before + self._held, len(self._before)
        while position < len(text):
            position = self._skip_code(text, position)
            beginning = self._beginning.search(text, position)
            if beginning is None:
                break
            position = beginning.start()
            code = CODE.match(text, position, partial=not is_end)
            match = self._opening.match(text, position, partial=not is_end)
            if code is not None and not code.partial:
                position = code.end()
            elif match is not None or code is not None:
                self._has_begun = match is not None and not match.partial
                start = position - len(self._before)
                is_lead = not self._before and not self._held[:start].strip()
                if is_lead:
                    return 0
                return start
            else:
                self._is_code = text.startswith("```", position)
                position += 3 if self._is_code else 1
        return len(self._held if is_end else self._held.rstrip("`"))

    def _skip_code(self, text: str, position: int) -> int:
        """Return where the code ends that ``position`` is in, if it is."""
        if not self._is_code:
            return position
        end = text.find("```", position)
        self._is_code = end < 0
        if self._is_code:
            return len(text)
        return end + 3

    def _release(self, end: int) -> str:
        if len(self._held) > MAX_HELD:
            end = len(self._held)
        text, self._held = self._held[:end], self._held[end:]
        self._before = (self._before + text)[-1:]
        return text


def read_text_calls(
    text: str, offered: Mapping[str, Collection[str]], prompt: Iterable[str] = ()
) -> list[TextCall] | None:
    """Return the calls in a text that begins like one; None if it is to be shown.

    What begins as nothing else does is never shown: if it names an offered tool, that is called
    with unreadable arguments, so that the model corrects it.
    """
    names = frozenset(offered)
    found = next(filter(None, (list(read(text, names)) for read in READERS)), [])
    prompt_text = _strip_blanks("\n".join(prompt))
    if any(_strip_blanks(source) in prompt_text for _, _, source in found):
        return None
    if found:
        return [(name, arguments) for name, arguments, _ in found]
    if _strip_blanks(text) in prompt_text:
        return None
    bare = _read_bare_arguments(text, offered)
    if bare:
        return bare
    if _compile(SURE_OPENING, names).match(text.lstrip()) is None:
        return None
    named = [name for name in offered if name in text]
    if not named and text.lstrip().startswith("```"):
        return None  # an example in its fence
    return [(name, {UNREADABLE: text[:MAX_SHOWN]}) for name in named]


def _strip_blanks(text: str) -> str:
    """Remove whitespace and escapes, so that quoted JSON is found in a prompt."""
    return re.sub(r"[\s\\]+", "", text)
