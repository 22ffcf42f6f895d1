#!/bin/sh
# Puts a Slurm into FOLDER for its soak: sh tests/fetch_slurm.sh FOLDER
# It comes out of Debian's packages with their libraries, unpacked, so without root: 3.5 MB to fetch, 13 MB in FOLDER.
# What is in FOLDER/bin knows where its libraries are; where its plugins are says the configuration.
set -eu
mkdir -p "$1/bin"
cd "$1"
here=$(pwd)

if command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null; then
    mkdir -p apt/lists/partial apt/cache/archives/partial
    apt() {
        timeout 60 apt-get -qq -o APT::Sandbox::User= -o Debug::NoLocking=1 \
            -o "Dir::State::lists=$here/apt/lists" -o "Dir::Cache=$here/apt/cache" "$@"
    }
    if apt update && apt -y --no-install-recommends --download-only install slurmctld slurmd slurm-client munge; then
        for package in apt/cache/archives/*.deb; do
            dpkg-deb -x "$package" unpacked
        done
        plugins=$(dirname "$(find "$here/unpacked" -name auth_munge.so)")
        ln -sfn "$plugins" plugins
        for program in bin/sbatch bin/squeue bin/scancel bin/sinfo sbin/munged sbin/slurmctld-wlm sbin/slurmd-wlm; do
            name=$(basename "$program" -wlm)
            printf '#!/bin/sh\nLD_LIBRARY_PATH=%s:%s exec %s/unpacked/usr/%s "$@"\n' \
                "$plugins" "$(dirname "$plugins")" "$here" "$program" >"bin/$name"
            chmod +x "bin/$name"
        done
    fi
    rm -rf apt
fi
if ! bin/slurmctld -V || ! bin/munged --version; then
    rm -rf bin unpacked plugins
    echo "no Slurm from Debian: its soak will be skipped" >&2
fi
