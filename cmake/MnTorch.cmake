# Imported target mn_torch for libtorch's C++ API. Torch's own CMake package wants nvcc and adds global flags; headers
# and three libraries are enough. Searched in CMAKE_PREFIX_PATH (an unzipped libtorch, or a Python environment's torch
# folder), $Torch_ROOT, the folder that the installed mn used (MN_TORCH_HINT), and the environment that cmake/setup
# makes in the build folder, or in build/ for build folders beside build/.
set(MN_HAVE_TORCH OFF)
set(MN_TORCH_HAS_CUDA OFF)
if(MN_TORCH STREQUAL "OFF")
  return()
endif()

file(GLOB MN_TORCH_ENVIRONMENT ${CMAKE_BINARY_DIR}/torch-env/lib/python3*/site-packages/torch
     ${CMAKE_CURRENT_LIST_DIR}/../build/torch-env/lib/python3*/site-packages/torch)
find_path(MN_TORCH_INCLUDE torch/csrc/api/include/torch/torch.h
          HINTS ${Torch_ROOT} $ENV{Torch_ROOT} ${MN_TORCH_HINT} ${MN_TORCH_ENVIRONMENT} PATH_SUFFIXES include torch/include)
mark_as_advanced(MN_TORCH_INCLUDE)
if(NOT MN_TORCH_INCLUDE)
  if(MN_TORCH STREQUAL "AUTO")
    message(STATUS "mn: no libtorch found; building the parts that do without it")
    return()
  endif()
  message(FATAL_ERROR "libtorch was not found: run cmake/setup, or give CMAKE_PREFIX_PATH the folder that holds "
                      "include/torch (LibTorch unzipped, or the torch folder of a Python environment)")
endif()

get_filename_component(MN_TORCH_DIR ${MN_TORCH_INCLUDE} DIRECTORY)
if(EXISTS ${MN_TORCH_DIR}/lib/libtorch_cuda.so)
  set(MN_TORCH_HAS_CUDA ON)
  file(STRINGS ${MN_TORCH_DIR}/lib/libc10_cuda.so cuda_runtime REGEX "libcudart\\.so\\.[0-9]+" LIMIT_COUNT 1)
  string(REGEX REPLACE ".*libcudart\\.so\\.([0-9]+).*" "\\1" MN_TORCH_CUDA "${cuda_runtime}")  # its major version
endif()
set(MN_HAVE_TORCH ON)

# MN_TORCH_VERSION, such as 2.11: libraries of one minor version do not fit headers of another.
set(version_header ${MN_TORCH_INCLUDE}/torch/headeronly/version.h)
if(NOT EXISTS ${version_header})
  set(version_header ${MN_TORCH_INCLUDE}/torch/csrc/api/include/torch/version.h)
endif()
file(STRINGS ${version_header} version_lines REGEX "define TORCH_VERSION_(MAJOR|MINOR) ")
string(REGEX REPLACE "[^0-9]*([0-9]+)[^0-9]+([0-9]+)" "\\1.\\2" MN_TORCH_VERSION "${version_lines}")
if(MN_TORCH_VERSION VERSION_LESS 2.9)
  message(FATAL_ERROR "libtorch ${MN_TORCH_VERSION} in ${MN_TORCH_DIR} is too old: mn needs 2.9 or newer")
endif()
if(MN_TORCH_BUILT AND NOT MN_TORCH_VERSION STREQUAL MN_TORCH_BUILT)  # in mnConfig.cmake
  message(FATAL_ERROR "this mn was built with libtorch ${MN_TORCH_BUILT}, and ${MN_TORCH_DIR} is libtorch "
                      "${MN_TORCH_VERSION}: leave it out of Torch_ROOT and CMAKE_PREFIX_PATH, or build mn with it")
endif()

if(NOT TARGET mn_torch)
  # A wheel has NVIDIA's libraries in packages beside torch; an unzipped libtorch has them in its lib folder.
  file(GLOB MN_TORCH_NVIDIA_DIRS ${MN_TORCH_DIR}/../nvidia/*/lib)
  add_library(mn_torch INTERFACE IMPORTED GLOBAL)
  target_include_directories(mn_torch SYSTEM INTERFACE ${MN_TORCH_INCLUDE} ${MN_TORCH_INCLUDE}/torch/csrc/api/include)
  target_link_options(mn_torch INTERFACE "LINKER:--disable-new-dtags")
  foreach(dir ${MN_TORCH_DIR}/lib ${MN_TORCH_NVIDIA_DIRS})
    target_link_options(mn_torch INTERFACE "LINKER:-rpath,${dir}" "LINKER:-rpath-link,${dir}")
  endforeach()
  target_link_libraries(mn_torch INTERFACE ${MN_TORCH_DIR}/lib/libc10.so ${MN_TORCH_DIR}/lib/libtorch_cpu.so)
endif()

# Adds libtorch's CUDA libraries. Linked by name although no symbol is used: libtorch_cuda registers its kernels when
# loaded.
function(mn_torch_link_cuda)
  set_property(TARGET mn_torch APPEND PROPERTY INTERFACE_LINK_LIBRARIES
               -Wl,--no-as-needed ${MN_TORCH_DIR}/lib/libtorch_cuda.so ${MN_TORCH_DIR}/lib/libc10_cuda.so -Wl,--as-needed)
endfunction()
