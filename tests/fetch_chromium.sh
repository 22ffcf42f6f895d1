#!/bin/sh
# Puts chromium into FOLDER/bin for the tests in a browser: sh tests/fetch_chromium.sh FOLDER
# The one on PATH is linked; otherwise it comes out of Debian's packages, with the libraries that this machine has not,
# unpacked, so without root: 100 MB to fetch, 290 MB in FOLDER, ten seconds. Whoever cannot have it in two minutes has none.
set -eu
mkdir -p "$1/bin"
cd "$1"
here=$(pwd)

if found=$(command -v chromium || command -v chromium-headless-shell); then
    ln -sf "$found" bin/chromium
elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    mkdir -p apt/lists/partial apt/cache/archives/partial
    apt() {
        timeout 60 apt-get -qq -o APT::Sandbox::User= -o Debug::NoLocking=1 \
            -o "Dir::State::lists=$here/apt/lists" -o "Dir::Cache=$here/apt/cache" "$@"
    }
    if apt update && apt -y --no-install-recommends --download-only install chromium-headless-shell; then
        for package in apt/cache/archives/*.deb; do
            dpkg-deb -x "$package" unpacked
        done
        libraries=$(find unpacked -name '*.so*' ! -path '*/chromium/*' -printf "$here/%h\n" | sort -u | paste -sd: -)
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/unpacked/usr/lib/chromium/chromium-headless-shell "$@"\n' \
            "$libraries" "$here" >bin/chromium
        chmod +x bin/chromium
    fi
    rm -rf apt
fi
if ! bin/chromium --headless --no-sandbox --version; then
    rm -rf bin unpacked
    echo "no chromium on PATH or from Debian: the tests in a browser will be skipped" >&2
fi
