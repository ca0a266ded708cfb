"""Tool calls that a model writes as text, because it or its server lacks support for calls.

There are two kinds: JSON objects that hold a name and arguments, and a name with its arguments
after it, as an object, as Python, in tags or in lines. Calls copied from the prompt stay text.
"""

import ast
import html
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from typing import Any

import regex

from src.llm.loose_json import decode, read_values, repair

# The only argument of a call with unreadable arguments; no tool has an argument of this name.
UNREADABLE = "unreadable arguments"
MAX_SHOWN = 200  # characters of unreadable arguments that are returned to the model
# Keys of the name of a call and of its arguments, and those around calls.
KEYS = "name|function|tool|tool_name|function_name|action|recipient_name"
GIVEN = "arguments|parameters|args|params|input|tool_input|tool_args|action_input"
NESTED = "function|function_call|functionCall|tool_call|tool_calls|tools|calls|tool_uses"
NAME_KEYS, ARGUMENTS, NESTING = (tuple(keys.split("|")) for keys in (KEYS, GIVEN, NESTED))
# Keys beside arguments that are written without a key of their own.
BESIDE_ARGUMENTS = frozenset({*NAME_KEYS, *ARGUMENTS, "id", "type"})

Offered = Mapping[str, Collection[str]]  # names of tools, with those of their parameters
TextCall = tuple[str, Any]  # a name and arguments, perhaps as JSON

# Brackets of tags, as written and as escaped, and what may precede a name in them.
LEFT = r"(?:</?[|｜]?|&lt;/?|＜/?|‹/?|⟨/?|\[/?)"
RIGHT = r"(?:[|｜]?>|&gt;|＞|›|⟩|\])"
PREFIX = r"(?:[\w-]+:|\s?[|｜]?\s?DSML\s?[|｜]\s?)?"

# How calls begin, of which NAMES are offered, with these PARAMETERS. After a sure opening no text
# is shown, even if it cannot be read; the others may begin something else.
GAP = r"\s{0,9}"  # bounded, so that a hostile reply takes no longer than another
CALLED = r"(?:(?:functions|default_api)\.|call:)?(?:NAMES)"
CALL_TAG = (
    rf"{LEFT}{PREFIX}(?:(?:\w{{1,9}}_)?tool[_▁]?calls?|tool_(?:use|code)|use_(?:mcp_)?tool|tools"
    rf"|function_?calls?|invoke|TOOL_REQUEST)(?:[▁_ :][^<>\n]{{0,400}})?(?:{RIGHT}|\Z)"
)
LABEL = r"(?:tool|function|action|name)(?:[ _](?:call|name))?\*{0,2}:[*`\"' ]{0,5}"
QUOTE = "[\"'“”]"
OBJECT = (
    r"[{\[][\s{\[]{0,20}(?:(?://|#)[^\n]{0,80}\s{0,20})?"
    rf"(?:{QUOTE}\w{{1,20}}{QUOTE}{GAP}:{GAP}(?:{QUOTE}[^\"'“”]{{0,500}}{QUOTE}|null|\d{{1,9}})"
    rf"{GAP},{GAP}){{0,3}}"
)
SURE = (
    # <tool_call>…, <tools>…, <function_calls><invoke name="…">…, <｜tool▁calls▁begin｜>…; within
    # a sentence, only before what may be calls
    rf"(?<![^\n>]){CALL_TAG}|{CALL_TAG}(?={GAP}(?:[\[{{<]|(?:NAMES)\b))",
    # <function=x>…, [function="x"]…, <tool name="x">…
    rf"{LEFT}{PREFIX}\w{{1,20}}(?:\s{{1,9}}name)?{GAP}={GAP}[\"']?(?:NAMES)[\"']?{GAP}(?:{RIGHT}|/|\w+=)",
    # <function><name>x</name>…, <action>x</action>…
    rf"<(?:function|tool|action)>{GAP}(?:<(?:\w+_)?name>|(?:NAMES)\b)",
    # <function=x{…, <x><a>…</a></x>, <x a="…"/>
    rf"<function={GAP}(?:NAMES){GAP}[(\[{{,]|<(?:NAMES)(?:\s[^<>]{{1,400}})?>",
    # {"name": "x", "arguments": {…}}, also in a list, and with other keys before
    rf"{OBJECT}{QUOTE}?(?:{KEYS}){QUOTE}?{GAP}:{GAP}{QUOTE}{CALLED}{QUOTE}",
    # the same with the name of no tool, and arguments at once
    rf"{OBJECT}{QUOTE}(?:{KEYS}){QUOTE}{GAP}:{GAP}{QUOTE}[\w.-]{{1,64}}{QUOTE}{GAP},{GAP}"
    rf"{QUOTE}(?:{GIVEN}){QUOTE}{GAP}:{GAP}[{{\"]",
    # Control tokens, and what models without any write instead.
    r"<\|(?:python_\w{1,9}|(?:start_)?action(?:_start)?|recipient|tool_call)(?:\|>|>)",
    rf"(?:<\|channel\|>)?(?:assistant)?commentary{GAP}to=|to=(?:functions\.)?(?:NAMES)\b",
    r"(?:function)?<｜tool▁sep｜>",
    rf"<start_function_call>|✿FUNCTION✿|\bfunctools{GAP}\[",
    rf"\bAction:{GAP}(?:(?:NAMES)\b|(?:```json{GAP})?[\[{{])|>>>(?:NAMES)\s",
)
UNSURE = (
    # {"arguments": {…}, "name": "x"}, {"function": {…}}, {"x": {…}}, {"a": …}
    rf"{OBJECT}[\"'](?:{GIVEN}|{NESTED}|NAMES|PARAMETERS)[\"']{GAP}:",
    r"\bThought:",  # …, Action: x, Action Input: {…}
    rf"[*@]{{0,2}}{CALLED}[*:]{{0,3}}{GAP}(?:```\w{{0,9}}{GAP})?\{{",  # x and its arguments
    rf"(?:\[|print\(|re\w{{0,7}} = )?{CALLED}(?:\.call)?\(",  # x(a="…"), [x(a="…")]
    rf"\*{{0,2}}{LABEL}(?:NAMES)\b",  # Tool: x, and its arguments in YAML
)
FENCE = r"(?:```(?:json|xml|yaml|function|py(?:thon)?3?|tool_\w{1,10})?\s{0,9})?"
SURE_OPENING = f"{FENCE}(?:{'|'.join(SURE)})"
OPENING = f"(?P<call>{FENCE}(?:{'|'.join(SURE + UNSURE)}))"
BEGINNINGS = (  # of thoughts, too
    r"[<&＜‹⟨◁(\[`{✿]|>>>|^>|\A[aH]|[*@]{0,2}\b(?:action|thought|tool|function|name|NAMES)\b"
    r"|(?:assistant)?commentary|\b(?:to=|print|func|call:|default_api|NAMES)"
    r"|[*@]{1,2}\Z|[*@]{0,2}\b\w{1,40}\Z"
)

# A name with arguments after it: behind a bracket, sign or label, or at the start of a line.
HEAD = (
    r"(?:^|[=>:\]<(\[,.`]|[|｜]>|✿:)[\s\"'*`@]{0,5}(?:functions\.|default_api\.)?"
    r"(?P<name>NAMES)(?!\w)"
)
# An argument in tags: <parameter=a>…</parameter>, <parameter name="a">…, <arg_key>a</arg_key>
# <arg_value>…</arg_value>, <a>…</a>, a="…".
STRUCTURE = f"{NESTED}|{GIVEN}|{KEYS}|invoke|function_calls|argument"
PAIRS = re.compile(
    rf"{LEFT}{PREFIX}(?:parameter|param|argument|arg)(?:\s+name)?\s*=\s*[\"']?"
    rf"(?P<k1>[\w.-]{{1,60}})[\"']?[^<>\[\]\n]{{0,40}}{RIGHT}(?P<v1>.*?)"
    rf"(?={LEFT}{PREFIX}(?:parameter|param|argument|arg|function|invoke)\b)"
    rf"|{LEFT}\w*arg_key{RIGHT}\s*(?P<k2>\w{{1,60}})\s*{LEFT}\w*arg_key{RIGHT}\s*"
    rf"{LEFT}\w*arg_value{RIGHT}(?P<v2>.*?){LEFT}\w*arg_value{RIGHT}"
    rf"|<(?!(?:{STRUCTURE})>)(?P<k3>[A-Za-z_]\w{{0,60}})>(?P<v3>.*?)</(?P=k3)>"
    r"|(?<=\s)(?P<k4>\w{1,60})=\"(?P<v4>[^\"<>]*)\"",
    re.DOTALL,
)
TAG = re.compile(r"<(?P<tag>[A-Za-z_]\w{0,60})>(?P<text>.*?)</(?P=tag)>", re.DOTALL)
EMPTY_TAG = re.compile(r"<[A-Za-z_]\w{0,60}\s*/>")
OPEN_TAG = re.compile(rf"{LEFT}[^<>\[\]]{{0,60}}\Z")
ANY_TAG = re.compile(rf"{LEFT}[^<>\[\]]{{0,60}}{RIGHT}|```")
YAML_PAIR = re.compile(r"^[ \t-]*(\w{1,60}):[ \t]*(\S.*)$", re.MULTILINE)
# Other spellings of signs: escaped brackets, and Gemma's marks of texts.
SIGNS = {
    **dict.fromkeys(("&lt;", "＜", "‹", "⟨"), "<"),
    **dict.fromkeys(("&gt;", "＞", "›", "⟩"), ">"),
    **dict.fromkeys(("<escape>", '<|"|>'), '"'),
}
NAME_IN_JSON = re.compile(rf"{QUOTE}(?:{KEYS}){QUOTE}\s*:\s*{QUOTE}([\w.-]{{1,64}}){QUOTE}")
NEAR_OBJECT = re.compile(r"[^{}]{0,80}\{")
GIVEN_LINE = re.compile(rf"^\W{{0,9}}(?:{GIVEN}):\s*$", re.MULTILINE | re.IGNORECASE)
MAX_HEADS = 200  # names at which arguments are looked for
MAX_BRACKETS = 50  # that may close a call in Python


Calls = list[TextCall] | None
Read = tuple[dict[str, Any], int] | None  # arguments, and their end
Found = tuple[str, Any, str]  # a call, and what it was read from


def read_text_calls(text: str, offered: Offered, prompt: Iterable[str] = ()) -> Calls:
    """Return the calls in a text that begins like one; None if it is to be shown.

    What begins as nothing else does is never shown: if it names an offered tool, that is called
    with unreadable arguments, else a tool that does not exist, so that the model corrects it.
    """
    names, is_fenced = frozenset(offered), text.lstrip().startswith("```")
    is_sure = _compile(SURE_OPENING, names).match(text.lstrip()) is not None
    found = (
        _read_values(read_values(text), names)
        or list(_read_named(text, offered, is_sure=is_sure))
        or _read_values([(repair(text), text)], names)  # with commas too many and the like
    )
    if not found and is_sure and not is_fenced:
        found = _read_values(read_values(text), frozenset(NAME_IN_JSON.findall(text)))
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
    named = [name for name in offered if name in text]
    if not is_sure or (is_fenced and not named):  # an example in its fence
        return None
    return [(name, {UNREADABLE: text[:MAX_SHOWN]}) for name in named]


def _read_values(values: Iterable[tuple[Any, str]], names: frozenset[str]) -> list[Found]:
    """Return the calls in objects that hold a name and arguments."""
    return [(*call, source) for value, source in values for call in _calls_in(value, names)]


def _calls_in(value: Any, names: Collection[str]) -> Iterator[TextCall]:
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
        yield name, others if given is None else given or {}
        return
    for key, entry in value.items():
        if key in names and isinstance(entry, dict):
            yield key, entry
        elif key in NESTING:
            yield from _calls_in(entry, names)


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


def _read_named(text: str, offered: Offered, *, is_sure: bool) -> Iterator[Found]:
    """Read names with their arguments after them; without any only in tags."""
    for sign, usual in SIGNS.items():
        text = text.replace(sign, usual)
    heads = list(islice(_compile(HEAD, frozenset(offered)).finditer(text), MAX_HEADS))
    limits = [*(head.start() for head in heads[1:]), len(text)]
    end = 0
    for head, limit in zip(heads, limits, strict=False):
        if head.start("name") >= end:
            is_tag = is_sure and text[head.start()] in "=><\"'|｜["
            known = offered.get(head["name"].lower(), ())
            found = _read_python(text, head.end(), known) or _read_arguments(
                text, head.end(), limit, may_be_empty=is_tag
            )
            if found is not None:
                arguments, end = found
                yield head["name"], arguments, text[head.start() : end]


def _read_arguments(text: str, start: int, limit: int, *, may_be_empty: bool) -> Read:
    """Return the arguments after a name, and their end.

    Args:
        text: The text.
        start: The end of the name.
        limit: Where the next name begins, if it is none in an argument.
        may_be_empty: True if nothing after the name means no arguments.
    """
    body = text[start:limit]
    pairs, bracket = list(PAIRS.finditer(body)), NEAR_OBJECT.match(text, start)
    starts = [pair.start() for pair in pairs]
    if bracket is not None and bracket.end() <= start + min([len(body), *starts]):
        value, end = decode(text, bracket.end() - 1)
        if value is None:
            value, end = repair(text[bracket.end() - 1 : limit]), limit
        return (value, end) if isinstance(value, dict) else None
    found = (next((p[f"k{n}"], p[f"v{n}"]) for n in (1, 2, 3, 4) if p[f"k{n}"]) for p in pairs)
    values = {key: _read_value(value) for key, value in found}
    if not values and GIVEN_LINE.search(body):
        values = {key: value.strip().strip("\"'") for key, value in YAML_PAIR.findall(body)}
    if limit < len(text):
        body = OPEN_TAG.sub("", body)  # that of the next name
    may_be_empty = may_be_empty and not ANY_TAG.sub("", body).strip(" \t\n\"'>])/*`")
    if "description" in values or not (values or may_be_empty):
        return None
    return values, limit


def _read_python(text: str, start: int, known: Collection[str]) -> Read:
    """Return the arguments of a call in Python, ``("…", limit=5)``, and its end.

    Those without a keyword are named like the first of the ``known`` parameters.
    """
    if not text.startswith(("(", ".call("), start):
        return None
    for bracket in islice(re.compile(r"\)").finditer(text, start), MAX_BRACKETS):
        try:
            call: Any = ast.parse(f"x{text[start : bracket.end()]}", mode="eval").body
            if len(call.args) <= len(known) and ast.Dict not in map(type, call.args):
                given = [*zip(known, call.args, strict=False)]
                given += [(word.arg, word.value) for word in call.keywords]
                return {name: _read_literal(value) for name, value in given}, bracket.end()
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return None


def _read_literal(node: ast.expr) -> Any:
    """Return a value of Python, or null, true or false.

    Raises:
        ValueError: It is none.
    """
    if isinstance(node, ast.Name) and node.id in ("null", "true", "false"):
        return {"null": None, "true": True, "false": False}[node.id]
    return ast.literal_eval(node)


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


def _read_bare_arguments(text: str, offered: Offered) -> Calls:
    """Return calls without their tool's name, if the text is nothing but their arguments.

    One tool must fit alone.
    """
    calls, rest = [], re.sub(r"```\w*", "", text)
    for value, source in read_values(text):
        rest = rest.replace(source, "", 1)
        if isinstance(value, dict):
            value = [value]
        for entry in value:
            if not isinstance(entry, dict) or not entry:
                return None
            fitting = [name for name, known in offered.items() if entry.keys() <= set(known)]
            if len(fitting) != 1:
                return None
            calls.append((fitting[0], entry))
    if rest.strip():
        return None
    return calls


@lru_cache(maxsize=256)
def _compile(
    pattern: str, names: frozenset[str], parameters: frozenset[str] = frozenset()
) -> regex.Pattern[str]:
    """Compile a pattern with the names of the offered tools and of their parameters."""
    for placeholder, words in (("NAMES", names), ("PARAMETERS", parameters)):
        longest_first = sorted(words, key=len, reverse=True)
        alternatives = "|".join(map(re.escape, longest_first)) or "(?!)"
        pattern = pattern.replace(placeholder, alternatives)
    return regex.compile(pattern, regex.IGNORECASE | regex.MULTILINE)


def compile_opening(offered: Offered) -> tuple[regex.Pattern[str], regex.Pattern[str]]:
    """Return what calls of the offered tools begin with, and what that begins with."""
    names, parameters = frozenset(offered), frozenset().union(*offered.values())
    return _compile(OPENING, names, parameters), _compile(BEGINNINGS, names)


def _strip_blanks(text: str) -> str:
    """Remove whitespace and escapes, so that quoted JSON is found in a prompt."""
    return re.sub(r"[\s\\]+", "", text)
