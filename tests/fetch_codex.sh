#!/bin/sh
# Puts OpenAI's Codex into FOLDER for the tests of its sessions: sh tests/fetch_codex.sh FOLDER
# 404 MB, so `make soak-codex` fetches it and `make test` does not; without it these tests are skipped, and say so.
set -eu
mkdir -p "$1"
if ! command -v npm >/dev/null; then
    echo "no npm on PATH: the tests of codex will be skipped" >&2
    exit 0
fi
npm install --silent --no-audit --no-fund --no-save --prefix "$1" '@openai/codex@~0.169.0'
"$1/node_modules/.bin/codex" --version
