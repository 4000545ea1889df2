"""Validates JSON documents against a JSON schema: schema.py SCHEMA FILE... Prints each error, and fails if there is one."""

import json
import pathlib
import sys

import jsonschema

schema, *files = [json.loads(pathlib.Path(path).read_bytes()) for path in sys.argv[1:]]
kind = jsonschema.validators.validator_for(schema, default=None)
kind.check_schema(schema)
validator = kind(schema, format_checker=kind.FORMAT_CHECKER)
wrong = 0
for path, file in zip(sys.argv[2:], files, strict=True):
    for error in validator.iter_errors(file):
        wrong += 1
        print(f"{path}: {error.json_path}: {error.message[:300]}")
sys.exit(1 if wrong else 0)
