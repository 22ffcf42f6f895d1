#!/bin/sh
# Puts Gemini CLI into FOLDER/node_modules/.bin for tests/gemini: sh tests/fetch_gemini.sh FOLDER
# It comes from the npm registry, in three seconds and 96 MB; nothing of it is executed here.
set -eu
mkdir -p "$1"

if ! command -v npm >/dev/null || ! node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)'; then
    echo "no npm with Node.js 20 or newer on PATH: the tests of Gemini CLI will be skipped" >&2
    exit 0
fi
if ! npm install --prefix "$1" --no-save --no-audit --no-fund --omit=optional --ignore-scripts --loglevel=error \
    '@google/gemini-cli@~0.61.0'; then
    echo "Gemini CLI cannot be fetched: its tests will be skipped" >&2
fi
