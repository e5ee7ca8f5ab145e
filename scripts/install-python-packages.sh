#!/usr/bin/env bash
# Build .venv: Python 3.11 or newer, uv, the pinned packages and this project in editable form.
# May be run again at any time, on a .venv in whatever state.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

venv=.venv

is_usable() {
    command -v "$1" >/dev/null && "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null
}

find_python() {
    local candidate
    if [[ -n "${PYTHON:-}" ]]; then
        is_usable "$PYTHON" || fail "PYTHON is $PYTHON, which is not a Python 3.11 or newer."
        echo "$PYTHON"
        return
    fi
    # The pins were resolved for 3.11, so that one goes first.
    for candidate in python3.11 python3 python3.12 python3.13; do
        if is_usable "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    fail "Python 3.11 or newer was not found. Install it (Debian: python3), or name it: make setup PYTHON=/path/to/python3.11"
}

# Install pip into .venv. Debian splits ensurepip off into python3-venv, so there are three ways.
install_pip() {
    local pip_of_venv=("$venv/bin/python" -m pip)
    if "${pip_of_venv[@]}" --version >/dev/null 2>&1; then
        return
    fi
    if has_ensurepip; then
        step "Installing pip into $venv (about 5 seconds)" "$venv/bin/python" -m ensurepip
    elif "$python" -m pip --version >/dev/null 2>&1; then
        step "Installing pip into $venv (about 5 seconds)" "$python" -m pip --python "$venv/bin/python" install pip
    elif may_install; then
        update_package_lists
        step "Installing Debian's package python3-venv (about 10 seconds)" install_packages python3-venv
        step "Installing pip into $venv (about 5 seconds)" "$venv/bin/python" -m ensurepip
    else
        fail "This Python has neither ensurepip nor pip, so $venv cannot be filled. Install one" \
            "(Debian: apt-get install python3-venv), or uv, and run this again."
    fi
}

has_ensurepip() {
    "$venv/bin/python" -c 'import ensurepip; ensurepip.version()' >/dev/null 2>&1
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
    uv="$venv/bin/uv"
    if ! "$uv" --version >/dev/null 2>&1; then
        install_pip
        step "Installing uv into $venv (about 5 seconds)" "$venv/bin/python" -m pip install --disable-pip-version-check uv
    fi
fi

# Exactly the pinned set, so nothing is left to resolve. Links between the cache and .venv are not
# always possible, and then uv says so on every run; a copy is what it falls back to anyway.
export UV_LINK_MODE="${UV_LINK_MODE:-copy}"
packages=$(grep -c == requirements/constraints.txt)
step "Installing $packages Python packages into $venv (1 to 3 minutes; Spark alone has 450 MB)" \
    "$uv" pip install --python "$venv/bin/python" --no-deps -r requirements/constraints.txt
step "Installing airflow_hivex in editable form (about 5 seconds)" \
    "$uv" pip install --python "$venv/bin/python" --no-deps -e .
