#!/bin/sh
# Run a command where generated code has a sandbox to run in:
#   a Docker daemon that answers is used as it is;
#   as root without one, a private daemon is started for the time of the command (see start_docker.sh);
#   otherwise the command is left to find bubblewrap, or to say what is missing.
set -eu
here=$(dirname "$0")

if ! docker version >/dev/null 2>&1 && [ "$(id -u)" = 0 ]; then
    dir=${TRACE_DOCKER_DIR:-/tmp/trace-docker}
    if setting=$(sh "$here/start_docker.sh" up "$dir"); then
        eval "$setting"
        trap 'sh "$here/start_docker.sh" down "$dir" >/dev/null 2>&1 || true' EXIT
    fi
fi
"$@"
