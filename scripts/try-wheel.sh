#!/usr/bin/env bash
# Build the wheel and try it as a user has it: in a new venv, in a folder without the checkout.
# The versions are those of requirements/constraints.txt, so that a failure is the wheel's.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
source scripts/steps.sh

root=$PWD
uv=$root/.venv/bin/uv
trial=$root/build/wheel-trial
bin=$trial/.venv/bin
constraints=$root/requirements/constraints.txt
export UV_LINK_MODE="${UV_LINK_MODE:-copy}"
unset PYTHONPATH

rm -rf "$trial"
mkdir -p "$trial"
cd "$trial"

install() {
    "$uv" pip install --python "$bin/python" --constraint "$constraints" "$@"
}

step "Building the wheel (about 5 seconds)" "$uv" build --wheel --out-dir "$trial" "$root"
wheel=$(echo "$trial"/*.whl)
step "Making a venv" "$uv" venv --python "$root/.venv/bin/python" "$trial/.venv"
step "Installing the wheel (1 to 3 minutes the first time)" install "$wheel"
step "Checking that the packages are compatible with each other" "$uv" pip check --python "$bin/python"

# Without an extra: whatever lacks it says which one.
expect_to_be_told() {
    local extra=$1 output
    shift
    if output=$("$@" 2>&1); then fail "This succeeded without the extra $extra: $*"; fi
    grep -qF "airflow-provider-hivex[$extra]" <<<"$output" || fail "$output"
}
expect_to_be_told demo "$bin/hivex" demo
expect_to_be_told postgresql "$bin/hivex" --metastore postgresql://hivex@127.0.0.1:1/hivex metastore status

step "Installing the extras" install "$wheel[demo,hive,postgresql]"
step "Checking that the packages are compatible with each other" "$uv" pip check --python "$bin/python"
"$bin/hivex" demo
