# The few ways in which targets are made in this tree.

# mn_add_library(core SOURCES a.cpp PUBLIC_HEADERS a.hpp LINKS … [TORCH]): static library mn_core, alias mn::core.
# PUBLIC_HEADERS alone are installed and documented, and install.headers compiles each by itself; <mn/mn.hpp> includes
# those that users name. TORCH links libtorch; APART: sources that read far more headers than the others; ALONE: those whose
# objects must be their own; OPTIMIZED goes to mn_optimize.
function(mn_add_library name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;PUBLIC_HEADERS;LINKS;PRIVATE_LINKS;APART;ALONE;OPTIMIZED" ${ARGN})
  add_library(mn_${name} STATIC ${ARG_SOURCES})
  add_library(mn::${name} ALIAS mn_${name})
  set_target_properties(mn_${name} PROPERTIES EXPORT_NAME ${name} VERIFY_INTERFACE_HEADER_SETS ON)
  target_compile_features(mn_${name} PUBLIC cxx_std_20)
  mn_unite(mn_${name} APART ${ARG_APART} ALONE ${ARG_ALONE} ${ARG_OPTIMIZED})  # flags of a source count only where it is compiled alone
  mn_optimize(${ARG_OPTIMIZED})
  target_sources(mn_${name} PUBLIC FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR}/runtime FILES ${ARG_PUBLIC_HEADERS})
  target_link_libraries(mn_${name} PUBLIC ${ARG_LINKS} PRIVATE ${ARG_PRIVATE_LINKS})
  if(ARG_TORCH)
    target_link_libraries(mn_${name} PUBLIC mn_torch)
  endif()
  set_property(GLOBAL APPEND PROPERTY MN_INSTALLED_LIBRARIES mn_${name})
  set_property(GLOBAL APPEND PROPERTY MN_BUILT_FILES $<TARGET_FILE:mn_${name}>)
  list(TRANSFORM ARG_PUBLIC_HEADERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE headers)
  set_property(GLOBAL APPEND PROPERTY MN_PUBLIC_HEADERS ${headers})
endfunction()

# mn_optimize([sources…]): hot loops, always at -O3 and, where the compiler can, for several generations of x86-64 at once.
# Without fused multiply-add, so that every CPU computes the same bits. The choice of a generation at load time runs
# before a sanitizer is set up, so sanitized builds do without.
include(CheckCXXSourceCompiles)
check_cxx_source_compiles("
  template <class T> __attribute__((target_clones(\"avx512f\", \"avx2\", \"default\"))) void twice(T* x) { *x += *x; }
  int main() { float x = 1; twice(&x); return x == 2 ? 0 : 1; }" MN_COMPILER_CLONES_TARGETS)
function(mn_optimize)
  if(NOT ARGN)
    return()
  endif()
  set_source_files_properties(${ARGN} PROPERTIES COMPILE_OPTIONS "-O3;-ffp-contract=off")
  if(MN_COMPILER_CLONES_TARGETS AND NOT MN_SANITIZE)
    set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_DEFINITIONS MN_TARGET_CLONES)
  endif()
endfunction()

# mn_unite(target [APART …] [ALONE …]): where MN_UNITY is on, its sources are compiled eight at a time, those APART eight at
# a time as well, but not with the others, and those ALONE one by one.
# Headers are read once for all of them; names in anonymous namespaces must differ. Not CMake's UNITY_BUILD, which writes
# absolute paths into the united sources: ccache would compile them again in each clone.
function(mn_unite target)
  if(NOT MN_UNITY)
    return()
  endif()
  cmake_parse_arguments(ARG "" "" "APART;ALONE" ${ARGN})
  get_target_property(sources ${target} SOURCES)
  list(FILTER sources INCLUDE REGEX "\\.cpp$")
  list(REMOVE_ITEM sources ${ARG_APART} ${ARG_ALONE})
  mn_unite_sources(${target} sources ${sources})
  mn_unite_sources(${target} apart ${ARG_APART})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # sources look like headers
  endif()
endfunction()

# mn_unite_sources(target NAME [sources…]): adds NAME_0.cpp, NAME_1.cpp, … to the target, which include eight sources each.
function(mn_unite_sources target name)
  set_source_files_properties(${ARGN} PROPERTIES HEADER_FILE_ONLY ON)
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${target}_united)
  set(count 0)
  foreach(source ${ARGN})
    math(EXPR group "${count} / 8")
    math(EXPR count "${count} + 1")
    get_filename_component(source ${source} ABSOLUTE)
    file(RELATIVE_PATH source ${folder} ${source})
    string(APPEND includes_${group} "#include \"${source}\"\n")
  endforeach()
  if(NOT count)
    return()
  endif()
  foreach(index RANGE ${group})
    file(CONFIGURE OUTPUT ${folder}/${name}_${index}.cpp CONTENT "${includes_${index}}" @ONLY)
    target_sources(${target} PRIVATE ${folder}/${name}_${index}.cpp)
  endforeach()
endfunction()

# mn_add_executable(mnlaunch SOURCES … LINKS … [DIR jobs]): lands in build/[DIR/], installs to bin/[DIR/].
function(mn_add_executable name)
  cmake_parse_arguments(ARG "" "DIR;OUTPUT" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${ARG_DIR})
  if(ARG_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT})
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}/${ARG_DIR})
  set_property(GLOBAL APPEND PROPERTY MN_BUILT_FILES $<TARGET_FILE:${name}>)
endfunction()

# mn_add_manual(mnlaunch LINKS … [SOURCE man_page.cpp]): that source prints mnlaunch(1), which is installed.
function(mn_add_manual name)
  cmake_parse_arguments(ARG "" "SOURCE" "LINKS" ${ARGN})
  if(NOT ARG_SOURCE)
    set(ARG_SOURCE man_page.cpp)
  endif()
  set(page ${PROJECT_BINARY_DIR}/${name}.1)
  add_executable(${name}_man_page ${ARG_SOURCE})
  target_link_libraries(${name}_man_page PRIVATE ${ARG_LINKS})
  add_custom_command(OUTPUT ${page} COMMAND ${name}_man_page > ${page}
                     DEPENDS ${name}_man_page COMMENT "Writing ${name}(1)")
  add_custom_target(${name}_manual ALL DEPENDS ${page})
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
  set_property(GLOBAL APPEND PROPERTY MN_BUILT_FILES ${page})
endfunction()
