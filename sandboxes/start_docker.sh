#!/bin/sh
# A private Docker daemon for the sandbox and its tests, with everything it writes under one directory.
#
#   start_docker.sh up   [DIR]   start it (again: does nothing) and print `export DOCKER_HOST=...`
#   start_docker.sh down [DIR]   stop the daemon whose pid file lies in DIR, and only that one
#
# DIR defaults to $TRACE_DOCKER_DIR, else /tmp/trace-docker. It has no network bridge and touches no firewall rule, so
# it runs beside any other daemon. Needs root; installs Debian's docker.io when there is no dockerd.
set -eu

action=${1:-up}
dir=${2:-${TRACE_DOCKER_DIR:-/tmp/trace-docker}}
sock=$dir/docker.sock
pidfile=$dir/docker.pid

say() { echo "start_docker.sh: $*" >&2; }

pid_alive() {  # the pid file may be stale and its number reused: look at what the process is
    [ -s "$pidfile" ] || return 1
    pid=$(cat "$pidfile")
    [ "$(cat "/proc/$pid/comm" 2>/dev/null)" = dockerd ]
}

answers() {
    python3 - "$sock" <<'PY' 2>/dev/null
import socket, sys
with socket.socket(socket.AF_UNIX) as s:
    s.settimeout(2)
    s.connect(sys.argv[1])
    s.sendall(b"GET /_ping HTTP/1.0\r\n\r\n")
    sys.exit(0 if b" 200 " in s.recv(200) else 1)
PY
}

up() {
    rm -f "$dir/temporary"  # with_sandbox.sh may stop the daemon while this lies there
    if pid_alive && answers; then
        echo "export DOCKER_HOST=unix://$sock"
        return
    fi
    [ "$(id -u)" = 0 ] || { say "dockerd needs root: run this with sudo, or use a daemon of your own"; exit 3; }
    if ! command -v dockerd >/dev/null; then
        command -v apt-get >/dev/null || { say "no dockerd and no apt-get here: install Docker by hand"; exit 3; }
        say "installing docker.io"
        { apt-get update -q && DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends docker.io; } \
            >/dev/null || { say "apt-get could not install docker.io"; exit 3; }
    fi
    mkdir -p "$dir"
    chmod 0711 "$dir"
    pid_alive || rm -f "$pidfile" "$sock"
    if ! pid_alive; then
        setsid dockerd --host="unix://$sock" --data-root="$dir/data" --exec-root="$dir/exec" --pidfile="$pidfile" \
            --bridge=none --iptables=false --ip6tables=false --ip-forward=false --ip-masq=false \
            --userland-proxy=false --log-driver=none >"$dir/dockerd.log" 2>&1 </dev/null &
    fi
    tries=0
    until answers; do
        tries=$((tries + 1))
        if [ "$tries" -gt 150 ]; then
            say "dockerd did not answer within 30 s; its last words, from $dir/dockerd.log:"
            tail -n 5 "$dir/dockerd.log" >&2
            exit 3
        fi
        sleep 0.2
    done
    echo "export DOCKER_HOST=unix://$sock"
}

down() {
    if pid_alive; then
        pid=$(cat "$pidfile")
        kill "$pid"
        tries=0
        while pid_alive && [ "$tries" -lt 150 ]; do
            tries=$((tries + 1))
            sleep 0.2
        done
        pid_alive && { say "dockerd $pid is still there after 30 s"; exit 3; }
    fi
    rm -f "$pidfile" "$sock" "$dir/temporary"
    # A container on the host's network leaves a mount behind, for which the folder could not be removed.
    awk -v under="$dir/" 'index($2, under) == 1 { print $2 }' /proc/mounts | sort -r | while read -r place; do
        umount "$place" 2>/dev/null || say "$place stays mounted"
    done
}

case $action in
    up) up ;;
    down) down ;;
    *) say "usage: start_docker.sh up|down [DIR]"; exit 2 ;;
esac
