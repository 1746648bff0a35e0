# Functions that make the targets of this tree.

# mn_add_library(core SOURCES a.cpp PUBLIC_HEADERS a.hpp LINKS … [TORCH]): static library mn_core, alias mn::core. Only
# PUBLIC_HEADERS are installed and documented, and install.headers compiles each alone; <mn/mn.hpp> includes the headers
# for users. TORCH links libtorch. APART: sources that read far more headers than the rest. ALONE: sources that need an
# object of their own. OPTIMIZED: sources for mn_optimize.
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

# mn_optimize([sources…]): compiles hot loops at -O3 and, if the compiler can, for several generations of x86-64 in one
# binary; without fused multiply-add, so every CPU computes the same bits. The loader chooses a generation before a
# sanitizer is set up, so sanitized builds have one generation.
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

# mn_unite(target [APART …] [ALONE …]): with MN_UNITY, compiles sources in groups of eight; APART sources in groups of
# their own, ALONE sources one by one. A group reads its headers once; names in anonymous namespaces must differ. Not
# CMake's UNITY_BUILD, whose absolute paths would defeat ccache in other clones.
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
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)  # the compiler takes included sources for headers
  endif()
endfunction()

# mn_unite_sources(target NAME [sources…]): adds NAME_0.cpp, NAME_1.cpp, … to the target; each includes eight sources.
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

# mn_add_executable(mnlaunch SOURCES … LINKS … [DIR jobs] [COMPONENT mnlaunch]): built in build/[DIR/], installed in
# bin/[DIR/]. Programs with a DIR or a manual get completions (mn_install_completions).
function(mn_add_executable name)
  cmake_parse_arguments(ARG "" "DIR;OUTPUT;COMPONENT" "SOURCES;LINKS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_LINKS})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/${ARG_DIR})
  if(ARG_OUTPUT)
    set_target_properties(${name} PROPERTIES OUTPUT_NAME ${ARG_OUTPUT})
  endif()
  if(NOT ARG_COMPONENT)
    set(ARG_COMPONENT ${CMAKE_INSTALL_DEFAULT_COMPONENT_NAME})
  endif()
  install(TARGETS ${name} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR}/${ARG_DIR} COMPONENT ${ARG_COMPONENT})
  set_property(GLOBAL APPEND PROPERTY MN_BUILT_FILES $<TARGET_FILE:${name}>)
  if(ARG_DIR)
    mn_install_completions(${name} ${ARG_COMPONENT})
  endif()
endfunction()

# mn_install_completions(mnlaunch COMPONENT): writes the program's completions for bash and zsh at the time of
# installation. Debian's zsh looks in vendor-completions.
function(mn_install_completions name component)
  install(CODE "set(share \"${CMAKE_INSTALL_DATADIR}\")
cmake_path(ABSOLUTE_PATH share BASE_DIRECTORY \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}\")
set(zsh site-functions)
if(CMAKE_INSTALL_PREFIX STREQUAL /usr)
  set(zsh vendor-completions)
endif()
message(STATUS \"Installing: completions of ${name}\")
execute_process(COMMAND_ERROR_IS_FATAL ANY COMMAND \"${PROJECT_SOURCE_DIR}/cmake/install_completions\"
  \"\${share}/bash-completion/completions\" \"\${share}/zsh/\${zsh}\" \"$<TARGET_FILE:${name}>\")" COMPONENT ${component})
endfunction()

# mn_add_manual(mnlaunch LINKS … [SOURCE man_page.cpp] [COMPONENT mnlaunch]): runs the source's program to print
# mnlaunch(1), and installs the page and the completions.
function(mn_add_manual name)
  cmake_parse_arguments(ARG "" "SOURCE;COMPONENT" "LINKS" ${ARGN})
  if(NOT ARG_SOURCE)
    set(ARG_SOURCE man_page.cpp)
  endif()
  set(page ${PROJECT_BINARY_DIR}/${name}.1)
  add_executable(${name}_man_page ${ARG_SOURCE})
  target_link_libraries(${name}_man_page PRIVATE ${ARG_LINKS})
  add_custom_command(OUTPUT ${page} COMMAND ${name}_man_page > ${page}
                     DEPENDS ${name}_man_page COMMENT "Writing ${name}(1)")
  add_custom_target(${name}_manual ALL DEPENDS ${page})
  if(NOT ARG_COMPONENT)
    set(ARG_COMPONENT ${CMAKE_INSTALL_DEFAULT_COMPONENT_NAME})
  endif()
  install(FILES ${page} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 COMPONENT ${ARG_COMPONENT})
  mn_install_completions(${name} ${ARG_COMPONENT})
  set_property(GLOBAL APPEND PROPERTY MN_BUILT_FILES ${page})
endfunction()
