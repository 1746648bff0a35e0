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
# The hot loops ask for -O3 themselves; elsewhere it costs time to compile.
string(REPLACE "-O3" "-O2" CMAKE_CXX_FLAGS_RELEASE "${CMAKE_CXX_FLAGS_RELEASE}")

# One setting for libraries and executables, so that both can use one precompiled header.
add_compile_options(-fPIC)
add_compile_options(-Wall -Wextra -Wpedantic -Wshadow $<$<COMPILE_LANGUAGE:CXX>:-Wnon-virtual-dtor>)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  add_compile_options(-Wno-restrict)  # false alarms in std::string's operator+ (GCC bug 105651)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # The compiler frees none of what it has read: a seventh of its time, for at most 1.5 GB (cmake/setup counts on 1.8).
  add_compile_options($<$<COMPILE_LANGUAGE:CXX>:--param=ggc-min-heapsize=2000000>)
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
    add_compile_options(-Wno-tsan)  # it does not see fences; those here stand between atomics, which race with nobody
  endif()
endif()

find_program(MN_CCACHE ccache)
mark_as_advanced(MN_CCACHE)
if(MN_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # In depend mode ccache learns from the compiler which files were read, and preprocesses nothing itself, which would
  # load precompiled headers twice. They also need the sloppiness. Paths within the checkout count relative to the build
  # folder: another clone takes what this one has compiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
      CCACHE_DEPEND=1 CCACHE_SLOPPINESS=pch_defines,time_macros CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1
      ${MN_CCACHE})
endif()
