# Language level, warnings, sanitizers and ccache, for everything in the tree.
set(oldest_GNU 12)
set(oldest_Clang 16)
if(DEFINED oldest_${CMAKE_CXX_COMPILER_ID} AND
   CMAKE_CXX_COMPILER_VERSION VERSION_LESS oldest_${CMAKE_CXX_COMPILER_ID})
  message(FATAL_ERROR "${CMAKE_CXX_COMPILER} is ${CMAKE_CXX_COMPILER_ID} ${CMAKE_CXX_COMPILER_VERSION}: "
                      "mn needs g++ 12, clang 16, or newer (set CXX)")
endif()

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()
# Only hot loops ask for -O3: elsewhere -O3 costs compile time.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# One setting for libraries and executables, so both can use one precompiled header.
add_compile_options(-fPIC)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # false alarms in std::string's operator+ (GCC bug 105651)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler does not free memory: saves a seventh of the time, for at most 1.5 GB (cmake/setup counts on 1.8).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=2000000>)
endif()
if(MN_HIDE_PATHS)  # objects of std::source_location and assert() have the names of sources
  add_compile_options(-ffile-prefix-map=${PROJECT_BINARY_DIR}=build -ffile-prefix-map=${PROJECT_SOURCE_DIR}=.)
endif()
if(MN_WERROR)
  add_compile_options(-Werror)
endif()

if(MN_ASSERTS)
  add_compile_options(-UNDEBUG)  # every build type but Debug defines NDEBUG; this option follows it
endif()

if(MN_SANITIZE)
  add_compile_options(-fsanitize=${MN_SANITIZE} -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${MN_SANITIZE})
  if(MN_SANITIZE STREQUAL "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    add_compile_options(-Wno-tsan)  # TSan does not see fences; ours stand between atomics, which cannot race
  endif()
endif()

find_program(MN_CCACHE ccache)
mark_as_advanced(MN_CCACHE)
if(MN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # Depend mode: ccache takes the list of headers from the compiler and preprocesses nothing itself, which would load
  # precompiled headers twice. Precompiled headers also need the sloppiness. Paths within the checkout are relative to
  # the build folder, so all clones share the cache.
  set(MN_CCACHE_SETTINGS CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR}
      CCACHE_NOHASHDIR=1)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env ${MN_CCACHE_SETTINGS} ${MN_CCACHE})
endif()
