#!/usr/bin/env bash
# Make sure of what no Python package brings: a Java runtime for Spark (17 or newer) and, for the
# tests, PostgreSQL's server programs, pgbouncer, a browser and FUSE. The benchmarks want PostgreSQL's JDBC
# driver too, for a Hive Metastore.
# What is there already is used; what is missing is installed from Debian's packages where that is
# possible, and named where it is not.
#
# Usage: scripts/install-system-packages.sh [java] [postgresql] [pgbouncer] [chromium] [fuse] [jdbc]      (default: java postgresql)
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

# The version of the Java that Spark would start: JAVA_HOME wins over PATH, as in Spark's scripts.
java_major_version() {
    local java=java version
    if [[ -n "${JAVA_HOME:-}" ]]; then
        java="$JAVA_HOME/bin/java"
    fi
    command -v "$java" >/dev/null || return 1
    version=$("$java" -version 2>&1 | sed -n 's/.* version "\([^"]*\)".*/\1/p' | head -n 1)
    version=${version#1.} # Java 8 still calls itself 1.8
    [[ "$version" =~ ^[0-9]+ ]] || return 1
    echo "${BASH_REMATCH[0]}"
}

have_java() {
    local major
    major=$(java_major_version) && ((major >= 17))
}

have_postgresql() {
    [[ -n "${HIVEX_TEST_POSTGRES_URL:-}" ]] && return 0
    compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null || command -v initdb >/dev/null
}

have_chromium() {
    command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null
}

have_pgbouncer() {
    command -v pgbouncer >/dev/null || [[ -x /usr/sbin/pgbouncer ]]
}

have_fuse() {
    command -v fusermount3 >/dev/null
}

have_jdbc() {
    [[ -e /usr/share/java/postgresql.jar ]]
}

# Debian releases carry different ones; the first is taken that apt can install. Other packages may name one that the
# release does not have, and then `apt-cache show` succeeds for it.
java_package() {
    local version
    for version in 17 21 25; do
        if apt-get --simulate install "openjdk-$version-jre-headless" >/dev/null 2>&1; then
            echo "openjdk-$version-jre-headless"
            return
        fi
    done
    fail "Debian's packages here have no Java 17, 21 or 25 that can be installed. Install a Java runtime, 17 or newer," \
        "and set JAVA_HOME to it."
}

wanted=("$@")
if ((${#wanted[@]} == 0)); then
    wanted=(java postgresql)
fi

missing=()
for what in "${wanted[@]}"; do
    case "$what" in
    java) have_java || missing+=(java) ;;
    postgresql) have_postgresql || missing+=(postgresql) ;;
    chromium) have_chromium || missing+=(chromium) ;;
    pgbouncer) have_pgbouncer || missing+=(pgbouncer) ;;
    fuse) have_fuse || missing+=(fuse) ;;
    jdbc) have_jdbc || missing+=(jdbc) ;;
    *) fail "Unknown requirement '$what'; known are: java, postgresql, pgbouncer, chromium, fuse, jdbc." ;;
    esac
done
if ((${#missing[@]} == 0)); then
    exit 0
fi

# A JAVA_HOME that is too old would hide the Java that we install.
if [[ " ${missing[*]} " == *" java "* && -n "${JAVA_HOME:-}" ]]; then
    fail "JAVA_HOME is $JAVA_HOME, which holds no Java 17 or newer. Point it to one, or unset it."
fi

if ! may_install; then
    fail "Missing: ${missing[*]}. Packages cannot be installed from here (no apt-get, or neither root nor sudo" \
        "without a password). Please install:" \
        "  java:       a Java runtime, 17 or newer          Debian: openjdk-17-jre-headless, or 21" \
        "  postgresql: PostgreSQL's server programs         Debian: postgresql" \
        "              (or set HIVEX_TEST_POSTGRES_URL to a server whose user may create databases)" \
        "  chromium:   a browser for the tests of the page  Debian: chromium" \
        "  pgbouncer:  a pooler of connections, for tests   Debian: pgbouncer" \
        "  fuse:       folders that answer wrong, for tests Debian: fuse3" \
        "  jdbc:       its JDBC driver                      Debian: libpostgresql-jdbc-java"
fi

update_package_lists
packages=()
for what in "${missing[@]}"; do
    case "$what" in
    java)
        # Slim images have no manual pages, and the package links its own into this folder.
        as_root mkdir -p /usr/share/man/man1
        java=$(java_package)
        packages+=("$java")
        ;;
    postgresql) packages+=(postgresql) ;;
    chromium) packages+=(chromium) ;;
    pgbouncer) packages+=(pgbouncer) ;;
    fuse) packages+=(fuse3) ;;
    jdbc) packages+=(libpostgresql-jdbc-java) ;;
    esac
done
step "Installing Debian's packages ${packages[*]} (about 30 seconds)" install_packages "${packages[@]}"

for what in "${missing[@]}"; do
    "have_$what" || fail "${packages[*]} was installed, but $what is still not usable. \
$([[ $what == java ]] && echo "The default java is older than 17: set JAVA_HOME to the newer one.")"
done
