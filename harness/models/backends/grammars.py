"""Grammars of JSON schemas, which llguidance compiles: what a constrained model may write."""

from __future__ import annotations

import json
from collections.abc import Mapping

from guidebench.harness.errors import UserError
from guidebench.harness.extras import missing
from guidebench.harness.models.calls import Json

EXTRA = "tiny"
SPACING = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
"""Objects are written as Python's `json` writes them; white space that may go on would go on."""


def grammar_of(schema: Mapping[str, Json]) -> str:
    """Return the grammar of the objects that fit a schema. Raise UserError for one that cannot be compiled, with the
    reason, and if llguidance is not installed."""
    try:
        from llguidance import LLMatcher
    except ImportError:
        raise missing("answer=schema needs the package llguidance for a model that runs here", EXTRA) from None
    grammar = str(LLMatcher.grammar_from_json_schema(json.dumps(schema, default=dict), overrides=SPACING))
    if fault := LLMatcher.validate_grammar(grammar):
        raise UserError(
            f"the JSON schema of an answer cannot be compiled ({fault}); mend the schema that the asking part "
            f"declares, or leave answer=schema out"
        )
    return grammar
