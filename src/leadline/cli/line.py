"""A command line: words and flags. Unknown flags answer with the closest known; --help shows what there is."""

from __future__ import annotations

import argparse
import shutil
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from leadline.cli.flag import Flag, shown
from leadline.errors import UnknownName, UserError
from leadline.names import suggest

#: flags that every verb takes
EVERYWHERE = (
    Flag("json", help="print one JSON object as the last line; all other output goes to stderr", group="everywhere"),
    Flag("help", help="show this", group="everywhere"),
)
_BARE = {flag.name for flag in EVERYWHERE}
_HELP_AT = 26


@dataclass(frozen=True)
class Line:
    """What was typed after the verb.

    Args:
        words: those that belong to no flag, in order.
        values: what each given flag says, by owner and option.
    """

    words: tuple[str, ...]
    values: dict[tuple[str, str], Any]

    def of(self, owner: str) -> dict[str, Any]:
        """The options given to one owner, by their names in Python."""
        return {option: value for (who, option), value in self.values.items() if who == owner}

    def get(self, option: str, default: Any = None) -> Any:
        """An option of the verb itself."""
        return self.values.get(("verb", option), default)


def parse(
    verb: str, argv: Sequence[str], flags: Sequence[Flag], explain: Callable[[str], UserError | None] | None = None
) -> Line:
    """The line that `argv` spells.

    Args:
        explain: what is to be said of a flag that the verb does not have here; None where it knows no more of it.
    """
    argv = _checked(verb, argv, flags, explain or (lambda name: None))
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
    for place, flag in enumerate(flags):
        _add(parser, flag, str(place))
    for name in _BARE:
        parser.add_argument(name, action="store_true", dest=name)
    found, words = parser.parse_known_args(argv)
    given = {flag: vars(found)[str(place)] for place, flag in enumerate(flags) if str(place) in vars(found)}
    values = {(flag.owner, flag.option): w if flag.kind.switch else flag.read(w) for flag, w in given.items()}
    return Line(tuple(word for word in words if word != "--"), values)


def _add(parser: argparse._ActionsContainer, flag: Flag, dest: str) -> None:
    """As text: a flag reads its own words, so that its messages are ours."""
    more: dict[str, Any] = {"dest": dest, "default": argparse.SUPPRESS}
    if flag.kind.switch:
        parser.add_argument(flag.name, action=argparse.BooleanOptionalAction, **more)
    elif flag.kind.many:
        parser.add_argument(flag.name, action="extend", nargs="*", **more)
    else:
        parser.add_argument(flag.name, action=_OneWord, nargs="?", **more)


class _OneWord(argparse.Action):
    """The word after a flag, in a list after those that came before; an empty list where none came."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        setattr(namespace, self.dest, [*getattr(namespace, self.dest, []), *([] if values is None else [values])])


def _checked(
    verb: str, argv: Sequence[str], flags: Sequence[Flag], explain: Callable[[str], UserError | None]
) -> list[str]:
    """`argv` with every flag known, given once, spelt with dashes; a negative number is joined to its flag by `=`."""
    known = {spelling: flag for flag in flags for spelling in flag.spellings}
    seen: dict[str, str] = {}
    out: list[str] = []
    for place, word in enumerate(argv):
        if word == "--":
            return [*out, *argv[place:]]
        if not is_flag(word):
            previous = known.get(out[-1]) if out else None
            if word.startswith("-") and word != "-" and previous and not previous.kind.many:
                out[-1] += f"={word}"
            else:
                out.append(word)
            continue
        name, sign, value = word.partition("=")
        if name == "-h":
            name = "--help"
        if name not in known and name.replace("_", "-") in known:
            name = name.replace("_", "-")
        if name not in known and name not in _BARE:
            reason = explain(name)
            if reason is not None:
                raise reason
            close = suggest(name, [*known, *_BARE])
            do = close if close.startswith("Did") else f"`leadline {verb} --help` shows them"
            raise UnknownName(f"leadline {verb} does not have this flag", got=name, do=do)
        flag = known.get(name)
        if flag is not None and not (flag.kind.many or flag.kind.again):  # a list may be given in parts
            if flag.name in seen:
                before = seen[flag.name]
                got = f"{name} twice" if before == name else f"both {before} and {name}"
                raise UserError(f"{flag.name} must be given once", got=got, do="Keep the one that you mean")
            seen[flag.name] = name
        bare = name in _BARE or known[name].kind.switch
        if sign and bare:
            raise UserError(f"{name} takes no value", got=word, do=f"Write {name} or leave it out")
        out.append(name + sign + value)
    return out


def is_flag(word: str) -> bool:
    """Whether a word of the command line is a flag, and not a negative number.

    >>> is_flag("--lr"), is_flag("-1e5"), is_flag("cars.csv")
    (True, False, False)
    """
    if not word.startswith("-") or word == "-":
        return False
    try:
        float(word)
    except ValueError:
        return True
    return False


def peek(argv: Sequence[str], name: str) -> str | None:
    """What follows a flag, before the line is parsed: which flags there are may depend on it."""
    for word, after in zip(argv, [*argv[1:], ""]):
        if word == name and after and not is_flag(after):
            return after
        if word.startswith(f"{name}="):
            return word.removeprefix(f"{name}=")
    return None


def first_word(argv: Sequence[str], flags: Sequence[Flag]) -> str | None:
    """The first word that belongs to no flag. A flag that is not among `flags` is taken to have one word."""
    known = {spelling: flag for flag in flags for spelling in flag.spellings}
    left = list(argv)
    while left:
        word = left.pop(0)
        if not is_flag(word):
            return word
        flag = known.get(word.replace("_", "-"))
        if "=" in word or word in _BARE or (flag and flag.kind.switch):
            continue
        while left and not is_flag(left[0]):
            left.pop(0)
            if not (flag and flag.kind.many):
                break
    return None


def help_text(usage: str, summary: str, examples: Sequence[str], flags: Sequence[Flag], more: str = "") -> str:
    """The page that --help shows: usage, what the verb does, examples, flags by group."""
    width = max(40, min(shutil.get_terminal_size((80, 24)).columns, 100))
    page = [f"usage: {usage}", textwrap.fill(" ".join(summary.split()), width)]
    page += ["\n".join(["examples:", *(f"  {example}" for example in examples)])]
    groups: dict[str, list[str]] = {}
    for flag in (*flags, *EVERYWHERE):
        groups.setdefault(flag.group, []).append(_entry(flag, width))
    page += ["\n".join([f"{group}:", *entries]) for group, entries in groups.items()]
    return "\n\n".join([*page, textwrap.fill(more, width, break_on_hyphens=False)] if more else page)


def _entry(flag: Flag, width: int) -> str:
    """A flag with its help, which begins at a column of its own."""
    head = f"  {_form(flag)}"
    text = f"{flag.help} {_default(flag)}"
    lines = textwrap.wrap(text.strip(), width - _HELP_AT) or [""]
    first = [head] if len(head) > _HELP_AT - 2 else [f"{head:{_HELP_AT}}{lines.pop(0)}"]
    return "\n".join([*first, *(" " * _HELP_AT + line for line in lines)]).rstrip()


def _default(flag: Flag) -> str:
    """What holds where the flag is not given."""
    if flag.name in _BARE:
        return ""
    if flag.kind.switch:
        return f"(default {'on' if flag.default else 'off'})"
    if flag.default in (None, "", ()):
        return "(default none)" if flag.kind.optional or flag.kind.many else ""
    return f"(default {shown(flag.default)})"


def _form(flag: Flag) -> str:
    if flag.name in _BARE:
        return flag.name
    if flag.kind.switch:
        return f"--[no-]{flag.name.removeprefix('--')}"
    word = "NAME=VALUE" if flag.kind.named else {int: "N", float: "X"}.get(flag.kind.scalars[0], "WORD")
    return f"{flag.name} {word}{' …' if flag.kind.many else ''}"
