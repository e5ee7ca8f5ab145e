#!/usr/bin/env bash
# Build .venv: Python 3.11 or newer, uv, the pinned packages and this project in editable form.
# May be run again at any time, on a .venv in whatever state.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

venv=.venv

fail() {
    { echo; printf '%s\n' "$@"; } >&2
    exit 1
}

is_usable() {
    command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    # The pins were resolved for 3.11, so that one goes first.
    for candidate in ${PYTHON:+"$PYTHON"} python3.11 python3 python3.12 python3.13; do
        if is_usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer was not found. Install it (Debian: python3), or name it: make setup PYTHON=/path/to/python3.11"
}

install_venv_package() {
    command -v apt-get >/dev/null || return 1
    local as_root=()
    if ((EUID != 0)); then
        command -v sudo >/dev/null && sudo -n true 2>/dev/null || return 1
        as_root=(sudo -n)
    fi
    echo "Installing python3-venv from Debian's packages ..."
    "${as_root[@]}" apt-get update -qq
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends python3-venv </dev/null
}

# uv goes into the .venv. Debian splits ensurepip off into python3-venv, so there are four ways.
install_uv() {
    if ! "$venv/bin/python" -m pip --version >/dev/null 2>&1; then
        "$venv/bin/python" -m ensurepip -q >/dev/null 2>&1 ||
            "$python" -m pip --python "$venv/bin/python" install -q pip >/dev/null 2>&1 ||
            { install_venv_package && "$venv/bin/python" -m ensurepip -q; } ||
            fail "This Python has neither ensurepip nor pip, so $venv cannot be filled. Install one" \
                "(Debian: apt-get install python3-venv), or uv, and run this again."
    fi
    "$venv/bin/python" -m pip install -q --disable-pip-version-check uv
}

if ! is_usable "$venv/bin/python"; then
    python=$(find_python)
    echo "Making $venv with $("$python" --version) ..."
    "$python" -m venv --clear --without-pip "$venv"
else
    python=$("$venv/bin/python" -c 'import sys; print(sys._base_executable)')
fi

if [[ ! -x "$venv/bin/uv" ]] && command -v uv >/dev/null; then
    uv=uv
else
    "$venv/bin/uv" --version >/dev/null 2>&1 || install_uv
    uv="$venv/bin/uv"
fi

# Exactly the pinned set, so nothing is left to resolve. Links between the cache and .venv are not
# always possible, and then uv says so on every run; a copy is what it falls back to anyway.
export UV_LINK_MODE="${UV_LINK_MODE:-copy}"
"$uv" pip install -q --python "$venv/bin/python" --no-deps -r requirements/constraints.txt
"$uv" pip install -q --python "$venv/bin/python" --no-deps -e .
