#!/bin/sh
# Run a command where generated code has a sandbox to run in:
#   a Docker daemon that answers is used as it is;
#   as root without one, a private daemon is started for the time of the command (see start_docker.sh);
#   otherwise the command is left to find bubblewrap, or to say what is missing.
# Commands at the same time share the private daemon, and the last one stops it. One that was started by hand with
# start_docker.sh is left running.
set -eu
here=$(dirname "$0")

# Called with $dir/users held shared, which every command does for as long as it needs the daemon.
start() {
    temporary=$dir/temporary
    exec 8>"$dir/starting"
    flock 8
    by_hand=
    if docker --host "unix://$dir/docker.sock" version >/dev/null 2>&1 && [ ! -e "$temporary" ]; then by_hand=1; fi
    setting=$(sh "$here/start_docker.sh" up "$dir" 8>&- 9>&-) || return 1
    [ "$by_hand" ] || : >"$temporary"
    exec 8>&-
}

leave() {
    if flock -n 9 && [ -e "$dir/temporary" ]; then  # nobody else holds it
        sh "$here/start_docker.sh" down "$dir" >/dev/null 2>&1 9>&- || true
    fi
}

if ! docker version >/dev/null 2>&1 && [ "$(id -u)" = 0 ] && command -v flock >/dev/null; then
    dir=${TRACE_DOCKER_DIR:-/tmp/trace-docker}
    mkdir -p "$dir"
    exec 9>"$dir/users"
    flock -s 9
    if start; then
        eval "$setting"
        trap leave EXIT
        # Without these a shell that is interrupted forgets its EXIT trap.
        trap 'exit 129' HUP
        trap 'exit 130' INT
        trap 'exit 143' TERM
    fi
    "$@" 9>&-
else
    "$@"
fi
