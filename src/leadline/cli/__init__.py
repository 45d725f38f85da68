"""The shell commands: `leadline VERB ...`. One file a verb."""

from leadline.cli.program import VERBS, main

__all__ = ["VERBS", "main"]
