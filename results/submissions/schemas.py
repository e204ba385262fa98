"""JSON schemas of a submission's files (manifest.json, study.json, cell.json, run.json), and the allowed names and
sizes of all files."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from guidebench.harness.logs import COLUMNS, KINDS, LOGS, MEANING
from guidebench.harness.records import parts
from guidebench.harness.records.galleries import CAPTIONS, EPISODES
from guidebench.harness.records.galleries import LARGEST as LARGEST_ANIMATION
from guidebench.harness.records.parts import RecordedPart
from guidebench.harness.records.schema import MATRICES, SCHEMA_VERSION, STAGES, STATUSES
from guidebench.harness.records.study import FRAMES, GALLERY

MANIFEST_VERSION = 1
MIB = 2**20
MOST_FILES = 60_000
LARGEST = 2**32 - 1
"""Most bytes of an archive: the limit of the plain ZIP format."""

_NAME = r"[A-Za-z0-9_](?:[A-Za-z0-9_.+=@, ()-]{0,118}[A-Za-z0-9_+=@()-])?"
_CELL = f"{_NAME}/{_NAME}/{_NAME}"
_RUN = rf"{_CELL}/seed-(?:0|[1-9][0-9]{{0,17}})"
CONTENTS: Mapping[str, tuple[str, int]] = {
    "study": (r"study\.json", 4 * MIB),
    "cell": (rf"{_CELL}/cell\.json", MIB),
    "run": (rf"{_RUN}/run\.json", MIB),
    "evaluations": (rf"{_RUN}/evaluations\.parquet", 16 * MIB),
    "ledger": (rf"{_RUN}/ledger\.jsonl", 16 * MIB),
    "policy": (rf"{_RUN}/policy\.safetensors", 1024 * MIB),
    "episode": (rf"{_RUN}/{FRAMES}/{_NAME}\.json", MIB),
    "strip": (rf"{_RUN}/{FRAMES}/{_NAME}\.png", MIB),
    "gallery": (rf"{_RUN}/{GALLERY}/gallery\.json", MIB),
    "animation": (rf"{_RUN}/{GALLERY}/[0-9]{{2}}\.webp", LARGEST_ANIMATION),
    "frames": (rf"frames/{_NAME}/{_NAME}/{_NAME}\.png", 16 * MIB),
    "cassette": (r"models/cassette\.sqlite", 2048 * MIB),
}
"""Kind of file -> pattern of its path and its most bytes. A submission contains no other files."""


def kind_of(path: str) -> str | None:
    """Return the kind of a path in a submission (a key of `CONTENTS`), or None if it is not allowed."""
    return next((kind for kind, (names, _) in CONTENTS.items() if re.fullmatch(names, path)), None)


def _object(properties: Mapping[str, Any], optional: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return the schema of an object with exactly these properties."""
    required = [name for name in properties if name not in optional]
    return {"type": "object", "additionalProperties": False, "required": required, "properties": dict(properties)}


def _mapping(values: Mapping[str, Any], most: int) -> dict[str, Any]:
    return {"type": "object", "maxProperties": most, "additionalProperties": values}


_TEXT = {"type": "string", "maxLength": 200}
_LONG = {"type": "string", "maxLength": 100_000}
_COUNT = {"type": "integer", "minimum": 0, "maximum": 2**53}
_PLAIN = {"type": ["string", "number", "boolean", "null"]}
_BOUND = {"type": ["number", "null"]}
_VALUE = {"anyOf": [_PLAIN, {"type": "array", "items": _PLAIN}]}

_COLUMN = _object(
    {
        "kind": {"enum": list(KINDS)},
        "meaning": _TEXT | {"maxLength": MEANING},
        "optional": {"type": "boolean"},
        "low": _BOUND,
        "high": _BOUND,
    },
    optional=("optional", "low", "high"),
)

OF_MANIFEST = _object(
    {
        "schema": {"const": MANIFEST_VERSION},
        "name": _TEXT | {"minLength": 1},
        "by": _TEXT,
        "contact": _TEXT,
        "guidebench": _TEXT,
        "verifiable": {"type": "boolean"},
        "files": _mapping(
            _object({"bytes": _COUNT, "sha256": {"type": "string", "pattern": "^[0-9a-f]{64}$"}}), MOST_FILES
        ),
    }
)
OF_STUDY = _object(
    {
        "schema": {"const": SCHEMA_VERSION},
        "study": _TEXT | {"minLength": 1},
        "command": {"type": "array", "maxItems": 1_000, "items": _LONG},
        "cells": _mapping(
            _object(
                {
                    "directory": {"type": "string", "pattern": f"^{_CELL}$"},
                    "seeds": {"type": "array", "maxItems": MOST_FILES, "items": _COUNT},
                    "label_variant": _LONG,
                    "matrix": _object({"kind": {"enum": list(MATRICES)}, "name": _TEXT, "reference": _TEXT}),
                },
                optional=("label_variant", "matrix"),
            ),
            MOST_FILES,
        ),
    }
)
_CELL_ENTRIES = {
    "schema": {"const": SCHEMA_VERSION},
    "cell": {"type": "string", "pattern": "^[0-9a-f]{10}$"},
    **dict.fromkeys(("suite", "task", "method", "learner", "backend", "model", "profile"), _TEXT),
    "parts": _mapping(_object(dict.fromkeys(RecordedPart._fields, _TEXT), optional=("backend", "model")), parts.MOST),
    "steps": _COUNT | {"minimum": 1},
    "variant": _LONG,
    "overrides": _mapping(_VALUE, 1_000),
    "versions": _mapping(_COUNT, 50),
    "score": _object(
        {
            "name": _TEXT | {"minLength": 1},
            "direction": {"enum": ["higher", "lower"]},
            "low": _BOUND,
            "high": _BOUND,
        }
    ),
    "logs": _mapping(_object({"meaning": _TEXT | {"maxLength": MEANING}, "columns": _mapping(_COLUMN, COLUMNS)}), LOGS),
    "settings": _mapping(_object({"value": _VALUE, "layer": _TEXT, "source": _LONG}), 1_000),
    "stand_ins": _object({"models": _TEXT, "roles": _mapping(_TEXT, parts.MOST)}),
}
_TEXTS = {"type": "array", "maxItems": 100, "items": _TEXT}
_OPTIONAL = ("parts", "overrides", "score", "logs", "stand_ins")
OF_CELL = _object(_CELL_ENTRIES, optional=_OPTIONAL)
for _ in range(STAGES):
    OF_CELL = _object({**_CELL_ENTRIES, "stage": OF_CELL, "keeps": _TEXTS}, optional=(*_OPTIONAL, "stage", "keeps"))
OF_RUN = _object(
    {
        "schema": {"const": SCHEMA_VERSION},
        "status": {"enum": list(STATUSES)},
        "seed": _COUNT,
        "step": _COUNT,
        "steps": _COUNT,
        "error": {"type": ["string", "null"], "maxLength": 1_000},
        "provenance": _object(
            {
                "commit": _TEXT,
                "dirty": {"type": "boolean"},
                "packages": _mapping(_TEXT, 100),
                "hardware": _mapping(_TEXT | {"type": ["string", "integer"]}, 20),
                "demonstrations": _TEXT,
                "pretraining": _TEXT,
                "datasets": _mapping(_TEXT, 20),
                "sources": _mapping(_TEXT, 500),
                "continued_by": {"type": "array", "maxItems": 500, "items": _TEXT},
            },
            optional=("demonstrations", "pretraining", "datasets", "sources", "continued_by"),
        ),
    },
    optional=("seed", "step", "steps", "error", "provenance"),
)
OF_EPISODE = _object(
    {
        "schema": {"const": SCHEMA_VERSION},
        **dict.fromkeys(("suite", "task", "judge", "unjudged"), _TEXT | {"maxLength": 1_000}),
        **dict.fromkeys(("seed", "moves", "length"), _COUNT),
        "return": {"type": "number"},
        "success": {"type": "boolean"},
        "clips": {
            "type": "array",
            "maxItems": 100,
            "items": _object(
                {
                    "file": {"type": "string", "pattern": rf"^{_NAME}\.png$"},
                    **dict.fromkeys(("first", "last"), _COUNT),
                    "events": {"type": "array", "maxItems": 100, "items": _TEXT},
                    "score": {"type": "number", "minimum": 0, "maximum": 1},
                },
                optional=("score",),
            ),
        },
    }
)
OF_GALLERY = _object(
    {
        "schema": {"const": SCHEMA_VERSION},
        **dict.fromkeys(("suite", "task", "measure"), _TEXT),
        **dict.fromkeys(("seed", "step", "played", "successes"), _COUNT),
        "own": {"type": "boolean"},
        "unjudged": _TEXT | {"maxLength": 1_000},
        "undrawn": {"type": "array", "maxItems": 0},
        "reason": {"const": ""},
        "opengl": {"type": "string", "pattern": "^[a-z0-9_]{0,20}$"},
        "episodes": {
            "type": "array",
            "minItems": 1,
            "maxItems": EPISODES,
            "items": _object(
                {
                    "file": {"type": "string", "pattern": r"^[0-9]{2}\.webp$"},
                    **dict.fromkeys(("episode", "length", "moves", "frames", "words_left_out"), _COUNT),
                    "return": {"type": "number"},
                    "score": {"type": "number"},
                    "success": {"type": "boolean"},
                    "actions": {"type": "string", "pattern": "^[0-9a-f]{64}$"},
                    "words": {
                        "type": "array",
                        "maxItems": CAPTIONS,
                        "items": _object({"step": _COUNT, "text": _TEXT | {"maxLength": 1_000}}),
                    },
                },
                optional=("actions",),
            ),
        },
    },
    optional=("opengl",),
)
JSON: Mapping[str, Mapping[str, Any]] = {
    "study": OF_STUDY, "cell": OF_CELL, "run": OF_RUN, "episode": OF_EPISODE, "gallery": OF_GALLERY,
}  # fmt: skip
"""Kind of file -> its schema."""
