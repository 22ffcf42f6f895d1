#!/bin/sh
# Puts git-lfs into FOLDER/bin for tests/test_staging_content.py: sh tests/fetch_git_lfs.sh FOLDER
# The one on PATH is linked; otherwise it comes out of Debian's package, in folders of our own, so without root.
set -eu
mkdir -p "$1/bin"
cd "$1"

if found=$(command -v git-lfs); then
    ln -sf "$found" bin/git-lfs
elif command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    mkdir -p apt/lists/partial apt/cache/archives/partial
    here=$(pwd)
    apt() {
        apt-get -qq -o APT::Sandbox::User= -o "Dir::State::lists=$here/apt/lists" -o "Dir::Cache=$here/apt/cache" "$@"
    }
    apt update
    apt download git-lfs
    dpkg-deb -x git-lfs_*.deb apt/unpacked
    mv apt/unpacked/usr/bin/git-lfs bin/git-lfs
    rm -rf apt git-lfs_*.deb
else
    echo "no git-lfs on PATH, and no apt-get to get one: its tests will be skipped" >&2
    exit 0
fi
bin/git-lfs version
