#!/bin/sh
# A base image with nothing but CPython's standard library, made of Debian packages: for machines that reach a Debian
# mirror but no container registry. No shell, no package manager and no setuid file ends up in it.
#
#   make_base_image.sh --tar FILE   write the root file system as a tar (for `docker import`)
#   make_base_image.sh [TAG]        import it; TAG defaults to trace-python-base:offline
#
# Needs apt-get, dpkg-deb and tar; neither root nor a network beyond apt's own.
set -eu

die() { echo "make_base_image.sh: $*" >&2; exit 3; }

out= tag=trace-python-base:offline
if [ "${1:-}" = --tar ]; then out=${2:?--tar needs a file}; elif [ -n "${1:-}" ]; then tag=$1; fi
for tool in apt-get apt-cache dpkg-deb tar; do
    command -v "$tool" >/dev/null || die "$tool is missing: this path needs a Debian-like machine"
done

umask 022  # what is made here is read by another user, inside
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
root=$work/root
mkdir -p "$root" "$work/debs"

python=$(apt-cache depends python3 2>/dev/null | sed -n 's/^ *Depends: \(python3\.[0-9]*\)$/\1/p' | head -n 1)
[ -n "$python" ] || die "apt knows no python3: run apt-get update first"

packages="$python-minimal lib$python-minimal lib$python-stdlib libc6 libgcc-s1 zlib1g libexpat1|libexpat1t64 \
libffi8|libffi7 libssl3t64|libssl3|libssl1.1 libbz2-1.0 liblzma5 libsqlite3-0 libuuid1|libuuid1t64 libcrypt1 \
libzstd1 tzdata"
apt-cache pkgnames >"$work/names"  # once: a question for each of them would take longer than all the rest
chosen=
for entry in $packages; do
    for name in $(echo "$entry" | tr '|' ' '); do
        if grep -qx "$name" "$work/names"; then chosen="$chosen $name"; break; fi
    done
done
# shellcheck disable=SC2086  # a list of names
(cd "$work/debs" && apt-get download -q $chosen >"$work/log" 2>&1) ||
    die "apt-get download failed: $(tail -n 1 "$work/log")"
for deb in "$work"/debs/*.deb; do dpkg-deb -x "$deb" "$root"; done

# Merged /usr, as the packages' own paths expect it.
for name in bin sbin lib lib32 lib64 libx32; do
    [ -d "$root/$name" ] && [ ! -L "$root/$name" ] || continue
    mkdir -p "$root/usr/$name"
    cp -a "$root/$name/." "$root/usr/$name/"
    rm -rf "${root:?}/$name"
done
for name in bin sbin lib lib64; do [ -d "$root/usr/$name" ] && ln -sfn "usr/$name" "$root/$name"; done

lib=$root/usr/lib/$python
rm -rf "$root"/usr/share/doc "$root"/usr/share/man "$root"/usr/share/lintian "$root"/usr/share/bug \
    "$root"/usr/share/binfmts "$root"/usr/share/apps "$root"/usr/share/applications "$root"/usr/share/pixmaps \
    "$root"/usr/share/zoneinfo/right "$root"/usr/share/zoneinfo/posix "$root"/usr/lib/*/gconv "$root"/usr/lib/*/audit \
    "$lib"/ensurepip "$lib"/lib2to3 "$lib"/idlelib "$lib"/tkinter "$lib"/turtledemo "$lib"/test "$lib"/pydoc_data \
    "$lib"/distutils "$lib"/config-* "$root"/etc/init.d "$root"/var
ln -sfn "$python" "$root/usr/bin/python3"
mkdir -p "$root/etc" "$root/proc" "$root/sys" "$root/dev" "$root/opt" "$root/run" "$root/tmp"
rm -rf "$lib"/sitecustomize.py "$lib"/EXTERNALLY-MANAGED
printf 'root:x:0:0::/:/none\nnobody:x:65534:65534::/:/none\n' >"$root/etc/passwd"
printf 'root:x:0:\nnogroup:x:65534:\n' >"$root/etc/group"
find "$root" -perm /6000 -exec chmod ug-s {} +

# Compiled once, never checked against the source: a start takes a third of the time. Run by the image's own
# interpreter, so the files fit it, through its own loader, so the machine's libraries do not matter.
loader=$(find "$root/usr/lib64" "$root/usr/lib" -name 'ld-linux*.so*' 2>/dev/null | head -n 1)
libs=$(echo "$root"/usr/lib/*-linux-gnu*)
PYTHONHOME=$root/usr "$loader" --library-path "$libs" "$root/usr/bin/$python" -S -s \
    -m compileall -q --invalidation-mode unchecked-hash -s "$root" -p / "$lib" >/dev/null 2>&1 || true
[ -d "$lib/__pycache__" ] || die "the image's own interpreter could not compile its library"

pack() { tar -C "$root" --owner=0 --group=0 --numeric-owner --mtime=@0 --sort=name -cf - .; }
if [ -n "$out" ]; then
    pack >"$out"
else
    pack | docker import - "$tag"
fi
