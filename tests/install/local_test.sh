#!/usr/bin/env bash
# cmake/setup --local, on a machine without headers and with a folder as Debian's mirror: it makes what has a recipe, in a
# build folder; a file that is not the known one, a build that fails and a library without a recipe end it with one line.
set -euo pipefail
work=$MN_BUILD_DIR/tests/local-test
rm -rf "$work"
mkdir -p "$work/bin" "$work/checkout/cmake" "$work/source/xxhash" "$work/mirror/pool/main/x/xxhash"
fail() { echo "FAILED: $*"; exit 1; }
command -v curl >/dev/null || { echo 'not run: no curl'; exit 77; }

cp -r "$MN_SOURCE_DIR/cmake/"setup* "$work/checkout/cmake/"
sed -i '/^  printf .*usr.include/d' "$work/checkout/cmake/setup.d/packages.sh"
for tool in awk bash cat cp curl cut df dirname env flock grep gzip head id make mkdir nproc rm sed sh sha256sum sort tar touch tr; do
  ln -s "$(command -v $tool)" "$work/bin/$tool"
done
printf '#!/bin/sh\necho cmake version 3.1\n' >"$work/bin/cmake"  # ends the set-up
chmod +x "$work/bin/cmake"
touch "$work/source/xxhash/"xx{hash,h3}.h

# set_up WORDS PROBE RECIPE COMMAND: with one missing library, whose Makefile runs COMMAND; the set-up ends with WORDS.
set_up() {
  local words=$1 probe=$2 recipe=$3 archive=$work/mirror/pool/main/x/xxhash/xxhash_0.8.1.orig.tar.gz status=0
  printf 'libxxhash.a:\n\t%s\n' "$4" >"$work/source/xxhash/Makefile"
  tar -czf "$archive" -C "$work/source" xxhash
  echo "base | a library | $probe | libx-dev | x | x" >"$work/checkout/cmake/requirements.txt"
  echo "header:xxhash.h | $recipe | x/xxhash/${archive##*/} | ${SHA:-$(sha256sum <"$archive" | cut -d' ' -f1)}" \
    >"$work/checkout/cmake/local_libraries.txt"
  env -i PATH="$work/bin" MN_DEBIAN_MIRROR="${MIRROR:-file://$work/mirror}" "$work/checkout/cmake/setup" --local -DMN_TORCH=OFF \
    >"$work/output" 2>&1 || status=$?
  [ $status = 1 ] && grep -q "$words" "$work/output" || fail "no '$words': status $status, $(cat "$work/output")"
}
SHA=$(printf '%064d' 0) set_up 'SHA-256 differs' header:xxhash.h xxhash 'touch $@'
MIRROR=file:///nowhere set_up 'could not fetch file:///nowhere/pool/main/x/' header:xxhash.h xxhash 'touch $@'
set_up 'could not make x/xxhash' header:xxhash.h xxhash false
set_up 'no recipe of --local' header:hdf5.h xxhash 'touch $@'
[ ! -e "$work/checkout/build/deps/include/xxhash.h" ] || fail 'installed what is damaged'
set_up 'CMake 3.1 is too old' header:xxhash.h xxhash 'touch $@'
grep -q 'setup: making xxhash' "$work/output" && [ -e "$work/checkout/build/deps/lib/libxxhash.a" ] || fail "$(cat "$work/output")"
set_up 'CMake 3.1 is too old' header:xxhash.h xxhash false
! grep -q 'making' "$work/output" || fail "made again: $(cat "$work/output")"
[ "$(echo "$work/checkout/build/deps/"*)" = "$work/checkout/build/deps/include $work/checkout/build/deps/lib" ] || fail 'files are left over'
