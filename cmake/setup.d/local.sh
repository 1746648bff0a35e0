# cmake/setup --local: makes missing libraries in build/deps, from Debian's source packages, without root. All of them
# are static, so an installation of mn needs build/deps no more.

readonly DEBIAN_MIRROR=${MN_DEBIAN_MIRROR:-http://deb.debian.org/debian}

# Everything in build/deps is found by the probes, by CMake, and by the recipes of later rows.
use_local() {
  [ -d "$deps" ] || return 0
  export CMAKE_PREFIX_PATH=$deps${CMAKE_PREFIX_PATH:+:$CMAKE_PREFIX_PATH} PATH=$deps/bin:$PATH
}

download() {  # download URL FILE
  if command -v curl >/dev/null; then
    curl -fsSL --retry 2 -o "$2" "$1"
  elif command -v wget >/dev/null; then
    wget -q -O "$2" "$1"
  else
    "$(find_python)" -c 'import sys, urllib.request; urllib.request.urlretrieve(*sys.argv[1:])' "$1" "$2"
  fi
}

# ---- recipes: each runs in the unpacked source, and installs into $deps ----------------------------------------------

make_all() { env -u OMP_NUM_THREADS make -j"$(cores)" "$@"; }

recipe_cmake() {
  cmake -S . -B build -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$deps" -DCMAKE_INSTALL_LIBDIR="$deps/lib" \
    -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DBUILD_SHARED_LIBS=OFF -DENABLE_SHARED=OFF -DPNG_SHARED=OFF \
    -DPNG_TESTS=OFF -DJSON_BuildTests=OFF -DWITH_TURBOJPEG=OFF -DBOOST_INCLUDE_LIBRARIES="${BOOST_INCLUDE_LIBRARIES:-}"
  cmake --build build -j"$(cores)"
  cmake --install build
}

recipe_configure() {
  ./configure --prefix="$deps" --libdir="$deps/lib" --disable-shared --enable-static --with-pic \
    --disable-libxml2 --disable-libudev --disable-pci --disable-cairo --disable-opencl --disable-cuda --disable-nvml \
    --disable-rsmi --disable-levelzero --disable-gl
  make_all
  make_all install
}

recipe_zlib() {
  CFLAGS='-O3 -fPIC' ./configure --prefix="$deps" --static
  make_all
  make_all install
}

recipe_xxhash() {
  make_all CFLAGS='-O3 -fPIC' libxxhash.a
  mkdir -p "$deps/include" "$deps/lib"
  cp xxhash.h xxh3.h "$deps/include"
  cp libxxhash.a "$deps/lib"
}

# Debian's archive has no configure script; the definitions are those that it would choose on Linux.
recipe_sodium() {
  local include=src/libsodium/include names sources
  names=(_GNU_SOURCE CONFIGURED DEV_MODE HAVE_TI_MODE HAVE_INLINE_ASM HAVE_C11_MEMORY_FENCES HAVE_GCC_MEMORY_FENCES
    HAVE_ATOMIC_OPS HAVE_PTHREAD HAVE_CATCHABLE_SEGV HAVE_CATCHABLE_ABRT HAVE_MMAP HAVE_MLOCK HAVE_MADVISE HAVE_MPROTECT
    HAVE_POSIX_MEMALIGN HAVE_NANOSLEEP HAVE_CLOCK_GETTIME HAVE_SYSCONF HAVE_GETPID HAVE_RAISE HAVE_WEAK_SYMBOLS
    HAVE_SYS_RANDOM_H HAVE_GETRANDOM HAVE_LINUX_COMPATIBLE_GETRANDOM)
  sed 's/@VERSION@/1.0.18/; s/@SODIUM_LIBRARY_VERSION_MAJOR@/10/; s/@SODIUM_LIBRARY_VERSION_MINOR@/3/
    s/@SODIUM_LIBRARY_MINIMAL_DEF@//' $include/sodium/version.h.in >$include/sodium/version.h
  mapfile -t sources < <(find src/libsodium -name '*.c')
  printf '%s\0' "${sources[@]}" | xargs -0 -n 16 -P "$(cores)" \
    cc -c -O2 -fPIC -w "${names[@]/#/-D}" -I$include -I$include/sodium
  ar rcs libsodium.a ./*.o
  mkdir -p "$deps/include" "$deps/lib"
  cp -r $include/sodium.h $include/sodium "$deps/include"
  cp libsodium.a "$deps/lib"
}

recipe_isal() {
  make_all -f Makefile.unx CFLAGS_='-O2 -fPIC' prefix="$deps" install
  rm -f "$deps"/lib/libisal.so*
}

# By CMake: Debian's archive lacks a generated source of Boost's own build tool. An installation of a part of Boost has
# no package of all Boost for find_package, so one is added.
recipe_boost() {
  local package=$deps/lib/cmake/Boost-1.81.0
  BOOST_INCLUDE_LIBRARIES='log;program_options' recipe_cmake
  cp -r libs/locale/include/boost/locale* "$deps/include/boost"
  mkdir -p "$package"
  cat >"$package/BoostConfig.cmake" <<'CMAKE'
include(CMakeFindDependencyMacro)
foreach(component ${Boost_FIND_COMPONENTS})
  find_dependency(boost_${component} CONFIG)
  set(Boost_${component}_FOUND TRUE)
endforeach()
get_filename_component(Boost_INCLUDE_DIRS ${CMAKE_CURRENT_LIST_DIR}/../../../include ABSOLUTE)
if(NOT TARGET Boost::headers)
  add_library(Boost::headers INTERFACE IMPORTED)
  target_include_directories(Boost::headers INTERFACE ${Boost_INCLUDE_DIRS})
endif()
CMAKE
  cat >"$package/BoostConfigVersion.cmake" <<'CMAKE'
set(PACKAGE_VERSION 1.81.0)
if(NOT PACKAGE_FIND_VERSION VERSION_GREATER PACKAGE_VERSION)
  set(PACKAGE_VERSION_COMPATIBLE TRUE)
endif()
CMAKE
}

recipe_pip() {  # recipe_pip PACKAGE
  local python
  python=$(find_python) || return 1
  [ -d "$deps/tools" ] || "$python" -m venv "$deps/tools"
  "$deps/tools/bin/pip" install --no-input --disable-pip-version-check "$1"
  mkdir -p "$deps/bin"
  ln -sf "$deps/tools/bin/$1" "$deps/bin/$1"
}

# make_local RECIPE SOURCE SHA256
make_local() {
  local recipe=$1 source=$2 sha=$3 url=$DEBIAN_MIRROR/pool/main/$2 archive=$deps/${2##*/} work=$deps/work
  say "making ${source##*/} in $deps"
  rm -rf "$work"
  mkdir "$work"
  if [ "$recipe" != pip ]; then
    download "$url" "$archive" >>"$log" 2>&1 ||
      die "could not fetch $url; is the network there? (MN_DEBIAN_MIRROR names another mirror)"
    echo "$sha  $archive" | sha256sum -c >>"$log" 2>&1 ||
      die "$url is not the file that mn knows (its SHA-256 differs): try again, or another mirror (MN_DEBIAN_MIRROR)"
    tar -xf "$archive" -C "$work" --strip-components=1 >>"$log" 2>&1 || die "could not unpack $archive; see $log"
  fi
  # In the background: a command whose failure is handled would go on after errors.
  (cd "$work" && "recipe_$recipe" "$source") >>"$log" 2>&1 </dev/null &
  wait $! || die "could not make $source; the words of its build are in $log"
  rm -rf "$work" "$archive"
}

# True if requirements.txt misses what the probe finds. ISA-L and libjpeg-turbo need the assembler nasm.
is_missing() {
  local row what
  if [ "$1" = command:nasm ]; then
    ! probe "$1" && { is_missing header:isa-l/crc.h || is_missing header:jpeglib.h; }
    return
  fi
  what=$(grep -v '^#' "$root/cmake/requirements.txt" | awk -F'|' -v probe="$1" '$3 ~ "^ *" probe " *$" { print $2 }')
  for row in ${missing[@]+"${missing[@]}"}; do
    [[ $row != *"|$what|"* ]] || return 0
  done
  return 1
}

# Makes what is missing and has a row in local_libraries.txt.
make_missing() {
  local probe recipe source sha include_dirs
  mkdir -p "$deps"
  use_local
  include_dirs=$(header_dirs)
  while IFS='|' read -r probe recipe source sha; do
    ! is_missing "${probe// /}" || make_local ${recipe} ${source} ${sha}
  done < <(grep -v '^#' "$root/cmake/local_libraries.txt")
}
