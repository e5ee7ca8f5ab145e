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

# Each order of uninstalling and installing the two packages with files of the same names: Spark runs a job, or the error
# has the command after which it does.
runs_a_job() {
    "$bin/hivex" --metastore "sqlite:///$trial/jobs.db" \
        --clusters "{\"c1\": {\"filesystem\": \"file://$trial/c1\", \"jobtracker\": \"local[1]\"}}" sql -e 'SELECT 40 + 2' 2>&1
}
expect_a_job() {
    local output
    output=$(runs_a_job) || fail "$1: $output"
    grep -qw 42 <<<"$output" || fail "$1: $output"
}
expect_a_repair() {
    local output packages
    if output=$(runs_a_job); then fail "A job ran although $1."; fi
    packages=$(tr -s ' \n' ' ' <<<"$output" | grep -oP 'pip install --force-reinstall --no-deps\K( pyspark(-client)?(==[0-9.]*[0-9])?)+' | head -n 1)
    [[ -n $packages ]] || fail "$output"
    # shellcheck disable=SC2086
    install --reinstall --no-deps $packages
    expect_a_job "After the command of the error"
}
step "Running a job" expect_a_job "A new installation"
for package in pyspark-client pyspark; do
    "$uv" pip uninstall --quiet --python "$bin/python" "$package"
    step "Repairing Spark without $package" expect_a_repair "$package was uninstalled"
    install --quiet "$wheel"
    step "Running a job with $package again" expect_a_job "$package installed again"
done

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
