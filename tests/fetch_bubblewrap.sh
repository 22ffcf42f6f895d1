#!/bin/sh
# Puts bwrap into FOLDER/bin for the tests in a sandbox: sh tests/fetch_bubblewrap.sh FOLDER
# The one on PATH is linked; otherwise it comes out of Debian's package with its libraries, unpacked, so without root.
set -eu
mkdir -p "$1/bin"
cd "$1"

if found=$(command -v bwrap); then
    ln -sf "$found" bin/bwrap
elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    mkdir -p apt/lists/partial apt/cache/archives/partial
    here=$(pwd)
    apt() {
        apt-get -qq -o APT::Sandbox::User= -o "Dir::State::lists=$here/apt/lists" -o "Dir::Cache=$here/apt/cache" "$@"
    }
    if ! { apt update && apt download bubblewrap libcap2 libselinux1; }; then
        echo "Debian's bubblewrap cannot be fetched: the tests in a sandbox will be skipped" >&2
        exit 0
    fi
    for package in *.deb; do
        dpkg-deb -x "$package" unpacked
    done
    rm -rf apt ./*.deb
    cp unpacked/usr/bin/bwrap bin/bwrap
    if ! bin/bwrap --version >/dev/null 2>&1; then
        rm bin/bwrap
        libraries=$(dirname "$(find "$here/unpacked" -name 'libcap.so.2')")
        printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s/unpacked/usr/bin/bwrap "$@"\n' "$libraries" "$here" >bin/bwrap
        chmod +x bin/bwrap
    fi
else
    echo "no bwrap on PATH, and no apt-get to get one: the tests in a sandbox will be skipped" >&2
    exit 0
fi
bin/bwrap --version
