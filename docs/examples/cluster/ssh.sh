#!/bin/sh
# A Ray cluster over plain ssh: `sh ssh.sh up FIRST OTHER...` on any machine that reaches all, then on FIRST
# `trace cluster check` and `trace sync --set cluster.engine=ray`; `sh ssh.sh down FIRST OTHER...` ends it.
# All hosts mount one folder under the same path, with locks that all of them see, and have one virtual environment at
# the same place: TRACE_VENV, /shared/venv by default. Hosts with bubblewrap or Docker: TRACE_SANDBOX=4.
set -eu
venv=${TRACE_VENV:-/shared/venv}
port=${TRACE_RAY_PORT:-6379}
sandbox=${TRACE_SANDBOX:-0}
# A lost node is taken for dead after 15 seconds, and its items begin anew.
health='RAY_health_check_period_ms=1000 RAY_health_check_timeout_ms=2000 RAY_health_check_failure_threshold=5'

usage() {
    echo "usage: sh ssh.sh up|down FIRST OTHER..." >&2
    exit 2
}
[ $# -ge 2 ] || usage
what=$1
first=$2
shift
offers=
[ "$sandbox" = 0 ] || offers=" --resources='{\"sandbox\": $sandbox}'"
for host in "$@"; do
    case $what in
        up)
            if [ "$host" = "$first" ]; then joins="--head --port=$port"; else joins="--address=$first:$port"; fi
            ssh "$host" "env $health $venv/bin/ray start $joins$offers"
            ;;
        down) ssh "$host" "$venv/bin/ray stop" || echo "$host did not answer" >&2 ;;
        *) usage ;;
    esac
done
