# Functions that make tests, and the programs that tests run.
include(CheckLinkerFlag)

# The fastest linker found: a build links two hundred test programs.
foreach(linker lld gold)
  check_linker_flag(CXX -fuse-ld=${linker} MN_LINKS_WITH_${linker})
  if(MN_LINKS_WITH_${linker})
    set(MN_TEST_LINKER -fuse-ld=${linker})
    break()
  endif()
endforeach()

# mn_precompile_torch(target): the target uses the shared precompiled header: <torch/torch.h> and GoogleTest. Only for
# the many tests, because making the header takes twice as long as reading its files.
function(mn_precompile_torch target)
  if(NOT TARGET mn_torch_pch)
    file(WRITE ${PROJECT_BINARY_DIR}/torch_pch.cpp "\n")
    add_library(mn_torch_pch OBJECT ${PROJECT_BINARY_DIR}/torch_pch.cpp)
    target_link_libraries(mn_torch_pch PRIVATE mn_torch GTest::gmock)
    target_precompile_headers(mn_torch_pch PRIVATE <torch/torch.h> <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  # A precompiled header needs equal definitions in all its users.
  target_compile_definitions(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_DEFINITIONS>)
  target_compile_options(${target} PRIVATE $<TARGET_PROPERTY:GTest::gtest,INTERFACE_COMPILE_OPTIONS>)
  target_precompile_headers(${target} REUSE_FROM mn_torch_pch)
endfunction()

# mn_compile_quickly(target): for programs compiled once and run once; takes a third of the compile time.
function(mn_compile_quickly target)
  if(CMAKE_BUILD_TYPE STREQUAL "Release")
    target_compile_options(${target} PRIVATE -Og)
  endif()
endfunction()

# mn_add_program(name SOURCES … LINKS … [TORCH] [DIR examples]): a program for tests to run, in build/tests[/DIR].
# TORCH: with the precompiled header.
function(mn_add_program name)
  cmake_parse_arguments(ARG "TORCH" "DIR" "SOURCES;LINKS" ${ARGN})
  mn_program_of_tests(${name} "${ARG_TORCH}" "${ARG_SOURCES}" "${ARG_LINKS}")
  mn_compile_quickly(${name})
  if(ARG_DIR)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests/${ARG_DIR})
  endif()
endfunction()

# mn_add_programs(NAME LINKS … PROGRAMS examples/example_gan=gan.cpp …): programs of one source each with libtorch, all in
# one executable: build/tests/examples/example_gan is a link to it, and its main() runs the source that the link names.
# The compiler gets eight sources at a time, each in a namespace of its own, so their main() ends with a return.
function(mn_add_programs name)
  cmake_parse_arguments(ARG "" "" "LINKS;PROGRAMS" ${ARGN})
  set(folder ${CMAKE_CURRENT_BINARY_DIR}/${name})
  set(count 0)
  foreach(program ${ARG_PROGRAMS})
    string(REGEX REPLACE "=.*" "" link ${program})
    string(REGEX REPLACE ".*=" "" source ${program})
    get_filename_component(space ${link} NAME)
    get_filename_component(source ${source} ABSOLUTE)
    set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${source})  # its #include lines
    file(STRINGS ${source} includes REGEX "^#include")
    file(RELATIVE_PATH source ${folder} ${source})
    math(EXPR group "${count} / 8")
    math(EXPR count "${count} + 1")
    list(APPEND includes_${group} ${includes})
    string(APPEND sources_${group} "namespace ${space} {\n#include \"${source}\"\n}\n")
    string(APPEND declarations "namespace ${space} {\nint main(int, char**);\n}\n")
    string(APPEND calls "  if (name == \"${space}\") return ${space}::main(argc, argv);\n")
    list(APPEND links COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:${name}> ${PROJECT_BINARY_DIR}/tests/${link})
    get_filename_component(links_folder ${PROJECT_BINARY_DIR}/tests/${link} DIRECTORY)
    file(MAKE_DIRECTORY ${links_folder})
  endforeach()
  foreach(index RANGE ${group})
    list(REMOVE_DUPLICATES includes_${index})
    list(JOIN includes_${index} "\n" includes)
    file(CONFIGURE OUTPUT ${folder}/group_${index}.cpp CONTENT "${includes}\n${sources_${index}}" @ONLY)
    list(APPEND sources ${folder}/group_${index}.cpp)
  endforeach()
  file(CONFIGURE OUTPUT ${folder}/main.cpp @ONLY CONTENT "#include <iostream>\n#include <string_view>\n${declarations}
int main(int argc, char** argv) {
  std::string_view name = argv[0];
  name = name.substr(name.rfind('/') + 1);
${calls}  std::cerr << name << \": no program of that name is in this executable\\n\";
  return 2;\n}\n")
  mn_program_of_tests(${name} TRUE "${sources};${folder}/main.cpp" "${ARG_LINKS}")
  set_source_files_properties(${folder}/main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
  mn_compile_quickly(${name})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(${name} PRIVATE -Wno-subobject-linkage)  # the compiler takes included sources for headers
  endif()
  add_custom_command(TARGET ${name} POST_BUILD ${links} VERBATIM)
endfunction()

# mn_build_by_test(fixture targets…): builds rarely needed targets in a test named `fixture`, or by the target
# `fixture`, not with everything. Tests that run them require the fixture.
function(mn_build_by_test fixture)
  if(NOT TARGET ${fixture})
    add_custom_target(${fixture})
    mn_add_script_test(${fixture} COMMAND ${CMAKE_COMMAND} --build ${PROJECT_BINARY_DIR} --target ${fixture} TIMEOUT 900
                       PROCESSORS 2)
    set_tests_properties(${fixture} PROPERTIES FIXTURES_SETUP ${fixture})
  endif()
  set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(${fixture} ${ARGN})
endfunction()

# mn_add_benchmark(name SOURCES … LINKS … [TORCH]): a program to run by hand, optimized as mn is; in the fixture
# `benchmarks`.
function(mn_add_benchmark name)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;LINKS" ${ARGN})
  mn_program_of_tests(${name} "${ARG_TORCH}" "${ARG_SOURCES}" "${ARG_LINKS}")
  mn_build_by_test(benchmarks ${name})
endfunction()

# mn_add_test(name SOURCES … LINKS … [TORCH] [LABELS …] [TIMEOUT s]): a GoogleTest program in one process. TORCH: with
# the precompiled header.
function(mn_add_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "SOURCES;LINKS;LABELS" ${ARGN})
  mn_test_program(${name} "${ARG_TORCH}" "${ARG_SOURCES}" "${ARG_LINKS};GTest::gmock;GTest::gtest_main")
  add_test(NAME ${name} COMMAND ${name})
  mn_test_properties(${name} "${ARG_TIMEOUT}" "${ARG_LABELS}" 2)
endfunction()

# mn_add_mpi_test(name RANKS 1 2 3 4 SOURCES … LINKS … [TORCH] [LABELS …] [TIMEOUT s]): a GoogleTest program under MPI,
# as test name.np1, name.np2, …, one per number of ranks; links the main() of tests/support.
function(mn_add_mpi_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "RANKS;SOURCES;LINKS;LABELS" ${ARGN})
  mn_test_program(${name} "${ARG_TORCH}" "${ARG_SOURCES}" "${ARG_LINKS};mn_mpi_test_main")
  foreach(ranks ${ARG_RANKS})
    set(halves ${ranks})  # several ranks wait for each other
    if(ranks EQUAL 1)
      set(halves 2)
    endif()
    add_test(NAME ${name}.np${ranks}
             COMMAND ${PROJECT_SOURCE_DIR}/tests/support/mpiexec ${ranks} $<TARGET_FILE:${name}>)
    mn_test_properties(${name}.np${ranks} "${ARG_TIMEOUT}" "${ARG_LABELS};mpi" ${halves})
  endforeach()
endfunction()

# mn_add_gpu_test(name RANKS 2 4 SOURCES … …): an mn_add_mpi_test() for a GPU, which all ranks may share; has the label
# gpu, and is skipped on machines without a GPU. tests/gpu/prove runs all such tests.
function(mn_add_gpu_test name)
  cmake_parse_arguments(ARG "TORCH" "TIMEOUT" "RANKS;SOURCES;LINKS;LABELS" ${ARGN})
  mn_test_program(${name} "${ARG_TORCH}" "${ARG_SOURCES}" "${ARG_LINKS};mn_mpi_test_main")
  foreach(ranks ${ARG_RANKS})
    add_test(NAME ${name}.np${ranks} COMMAND ${PROJECT_SOURCE_DIR}/tests/support/on_gpu
             ${PROJECT_SOURCE_DIR}/tests/support/mpiexec ${ranks} $<TARGET_FILE:${name}>)
    mn_test_properties(${name}.np${ranks} "${ARG_TIMEOUT}" "${ARG_LABELS};gpu;mpi" ${ranks})
    set_property(GLOBAL APPEND PROPERTY MN_GPU_TESTS "${name} ${ranks}")
  endforeach()
endfunction()

# mn_add_script_test(name COMMAND … [LABELS …] [TIMEOUT s] [PROCESSORS n]): a script that runs the built programs as a
# user would.
function(mn_add_script_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT;PROCESSORS" "COMMAND;LABELS" ${ARGN})
  if(NOT ARG_PROCESSORS)
    set(ARG_PROCESSORS 1)
  endif()
  add_test(NAME ${name} COMMAND ${ARG_COMMAND})
  math(EXPR halves "2 * ${ARG_PROCESSORS}")
  mn_test_properties(${name} "${ARG_TIMEOUT}" "${ARG_LABELS}" ${halves})
endfunction()

# A GoogleTest program, not registered as a test.
function(mn_test_program name torch sources links)
  mn_program_of_tests(${name} "${torch}" "${sources}" "${links}")
  mn_compile_quickly(${name})
  mn_unite(${name})
endfunction()

function(mn_program_of_tests name torch sources links)
  add_executable(${name} ${sources})
  target_link_libraries(${name} PRIVATE ${links})
  target_link_options(${name} PRIVATE ${MN_TEST_LINKER})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/tests)
  if(torch)
    mn_precompile_torch(${name})
  endif()
endfunction()

# CTest counts halves of processors, so that waiting tests (mn_waits) run beside computing tests.
function(mn_test_properties test timeout labels halves)
  if(NOT timeout)
    set(timeout 480)  # a test takes seconds, but minutes on a busy machine
  endif()
  math(EXPR mpiexec_timeout "${timeout} - 15")  # so that mpiexec ends its ranks itself
  if(MN_SANITIZE STREQUAL "thread")  # MPI is not instrumented, so ThreadSanitizer sees only half of its work
    set(more ";TSAN_OPTIONS=ignore_noninstrumented_modules=1")
  endif()
  if(NOT MN_SANITIZE)
    string(APPEND more ";MN_TEST_PRELOAD=${PROJECT_BINARY_DIR}/tests/sleeping_yield.so")  # for tests/support/mpiexec
  endif()
  if(NOT "gpu" IN_LIST labels)  # hides GPUs, so other tests do the same on every machine
    string(APPEND more ";CUDA_VISIBLE_DEVICES=")
  endif()
  set_tests_properties(${test} PROPERTIES
    TIMEOUT ${timeout} LABELS "${labels}" PROCESSORS ${halves} SKIP_RETURN_CODE 77
    ENVIRONMENT "MN_BUILD_DIR=${PROJECT_BINARY_DIR};MN_SOURCE_DIR=${PROJECT_SOURCE_DIR};MN_TEST_TIMEOUT=${mpiexec_timeout};OMP_NUM_THREADS=1;LC_ALL=C${more}")
endfunction()

# mn_waits(tests…): tests that mostly wait for time-outs, some for minutes; they start early.
function(mn_waits)
  set_tests_properties(${ARGN} PROPERTIES PROCESSORS 1 COST 1)
endfunction()
