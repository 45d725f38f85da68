"""From the words of a shell to a verb and its exit code. A verb is imported when it is asked for.

Exit codes: 0 done; 1 the doctor found an error; 2 something that the user can correct, said in one message; 130 Ctrl-C.
"""

from __future__ import annotations

import ast
import importlib
import json
import os
import re
import sys
from collections.abc import Sequence
from typing import Any

from leadline.errors import UnknownName, UserError
from leadline.flags import shell_words
from leadline.names import suggest

#: each verb with what it does
VERBS: dict[str, str] = {
    "train": "train on your own table, pictures or text, or on a named source",
    "search": "search for good settings in many trials; can be resumed and shared",
    "resume": "continue an interrupted run: the result is the same bit for bit",
    "evaluate": "measure a run on a split, or on your own rows",
    "predict": "predict the rows of a file",
    "generate": "write text that continues a prompt, or translate",
    "doctor": "say what is wrong with data, a model or a run",
    "show": "look at a model, data, the training loop or a run",
    "list": "list models, data, likelihoods, runs and more",
    "claims": "test claims of the literature: figure, numbers, verdict",
    "syllabus": "find what the library has for a section of a book",
    "replay": "compute one step of a run again and show its gradients",
}

#: an argument with its value, as Python writes it
_ARGUMENT = re.compile(r"""(?<![\w.])([a-z]\w*)=(\[[^][]*]|"[^"]*"|'[^']*'|\d+(?:\.\d+)?)""")

_EXAMPLES = (
    "leadline train mnist1d --model MLP --hidden 100 100",
    "leadline train cars.csv --target price",
    "leadline train photos/",
    "leadline train my-texts/",
    "leadline train reviews.csv --text review --target stars",
    "leadline list data",
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command that `argv` spells (by default the process's own); its exit code."""
    argv = list(sys.argv[1:] if argv is None else argv)
    as_json = "--json" in argv
    try:
        return _dispatch(argv)
    except UserError as error:
        return _fail(spoken(error), as_json)
    except OSError as error:
        if isinstance(error, BrokenPipeError):  # the reader of our output left, as `head` does
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            return 0
        at = f" at {error.filename}" if error.filename else ""
        return _fail(f"the system refused. Got {error.strerror or error}{at}. Correct that and try again.", as_json)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return 130


def _dispatch(argv: list[str]) -> int:
    if not argv or argv[0] in ("--help", "-h", "help"):
        print(_overview())
        return 0
    if argv[0] == "--version":
        from leadline.version import VERSION

        print(f"leadline {VERSION}")
        return 0
    verb, rest = argv[0], argv[1:]
    if verb not in VERBS:
        raise UnknownName("the first word must be a verb", got=repr(verb), do=suggest(verb, VERBS))
    module = importlib.import_module(f"leadline.cli.{verb}")
    return run_verb(verb, module, rest)


def run_verb(verb: str, module: Any, argv: list[str]) -> int:
    """Parse the line with the flags that the verb has for it, and run it."""
    from leadline.cli.line import help_text, parse
    from leadline.cli.screen import Screen

    if "--help" in argv or "-h" in argv:
        asked = [word for word in argv if word not in ("--help", "-h")]
        more = getattr(module, "MORE", "")
        print(help_text(module.USAGE, module.__doc__, module.EXAMPLES, module.flags(asked), more))
        return 0
    argv = module.arranged(argv) if hasattr(module, "arranged") else argv
    explain = module.explain(argv) if hasattr(module, "explain") else None
    line = parse(verb, argv, module.flags(argv), explain)
    return module.run(line, Screen("--json" in argv))


def spoken(error: UserError) -> str:
    """The message for someone at a shell: remedies that name an argument of Python name the flag instead.

    >>> spoken(UserError("text must have few levels", got="900", do="Leave it out with drop=['text']"))
    'text must have few levels. Got 900. Leave it out with --drop text.'
    """
    do = _ARGUMENT.sub(lambda match: shell_words(match[1], ast.literal_eval(match[2])), error.do)
    return f"{error.must}. Got {error.got}. {do}{'' if do.endswith('?') else '.'}"


def _fail(message: str, as_json: bool) -> int:
    sys.stdout.flush()
    print(f"error: {message}", file=sys.stderr, flush=True)
    if as_json:
        print(json.dumps({"error": message}, ensure_ascii=False), flush=True)
    return 2


def _overview() -> str:
    verbs = "\n".join(f"  {verb:9} {text}" for verb, text in VERBS.items())
    examples = "\n".join(f"  {example}" for example in _EXAMPLES)
    return (
        "usage: leadline VERB ... [--json] [--help]\n\n"
        f"verbs:\n{verbs}\n\nexamples:\n{examples}\n\n"
        "`leadline VERB --help` shows the flags of a verb. Every verb takes --json."
    )
