#!/bin/sh
# Puts the newest git that Debian has (`sid`) into FOLDER/bin: sh tests/fetch_git.sh FOLDER PATCHELF
# It comes with its C library and all others, unpacked, so without root; PATCHELF makes git find them, so that nothing
# that git starts sees them.
set -eu
patchelf=$2
mkdir -p "$1/bin"
cd "$1"
here=$(pwd)

mkdir -p apt/lists/partial apt/cache/archives/partial
: >apt/status
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian sid main" >apt/sources
apt() {
    timeout 300 apt-get -qq -o APT::Sandbox::User= -o Debug::NoLocking=1 -o "Dir::State::status=$here/apt/status" \
        -o "Dir::State::lists=$here/apt/lists" -o "Dir::Cache=$here/apt/cache" \
        -o "Dir::Etc::sourcelist=$here/apt/sources" -o Dir::Etc::sourceparts=- "$@"
}
apt update
apt -y --no-install-recommends --download-only install git
for package in apt/cache/archives/*.deb; do
    dpkg-deb -x "$package" unpacked
done
rm -rf apt

libraries=$(dirname "$(find "$here/unpacked" -name libc.so.6)")
core=$here/unpacked/usr/lib/git-core
for program in "$core"/*; do
    if [ ! -L "$program" ] && "$patchelf" --print-interpreter "$program" >/dev/null 2>&1; then
        "$patchelf" --set-interpreter "$libraries/ld-linux-x86-64.so.2" --set-rpath "$libraries" --force-rpath "$program"
    fi
done
printf '#!/bin/sh\nGIT_EXEC_PATH=%s GIT_TEMPLATE_DIR=%s exec %s/git "$@"\n' \
    "$core" "$here/unpacked/usr/share/git-core/templates" "$core" >bin/git
chmod +x bin/git
bin/git --version
