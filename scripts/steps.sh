# Functions for the scripts of this folder, which source it.

# Stop with a message of one or several lines.
fail() {
    { echo; printf '%s\n' "$@"; } >&2
    exit 1
}

# Print one line for a step of more than a few seconds and run its command. The command's output is shown only
# when it fails. Usage: step MESSAGE COMMAND...
step() {
    local message=$1 log
    shift
    echo "$message ..."
    log=$(mktemp)
    if ! "$@" >"$log" 2>&1 </dev/null; then
        cat "$log" >&2
        rm -f "$log"
        echo "This command failed: $*" >&2
        return 1
    fi
    rm -f "$log"
}

as_root() {
    if ((EUID == 0)); then "$@"; else sudo -n "$@"; fi
}

# Whether packages of Debian can be installed without asking for a password.
may_install() {
    command -v apt-get >/dev/null || return 1
    ((EUID == 0)) || { command -v sudo >/dev/null && sudo -n true 2>/dev/null; }
}

update_package_lists() {
    step "Fetching Debian's package lists (about 10 seconds)" as_root apt-get update
}

install_packages() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"
}
