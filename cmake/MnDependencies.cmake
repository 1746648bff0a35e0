# Every third-party library, found once, as imported targets. MN_HAVE_TORCH, MN_HAVE_CUDA and MN_HAVE_NCCL say what there is.
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(HDF5 1.10 REQUIRED COMPONENTS C)
find_package(nlohmann_json REQUIRED)
find_package(ZLIB REQUIRED)

set(Boost_USE_STATIC_LIBS ON)  # a built tree then runs on nodes that have no Boost
find_package(Boost 1.74 REQUIRED COMPONENTS log program_options)

include(MnTorch)  # mn_torch, shared with the installed package

if(BUILD_TESTING)
  find_package(GTest REQUIRED)
  find_package(benchmark QUIET)
endif()

# A library without a CMake package: mn_find_library(hwloc hwloc.h hwloc) → imported target mn_hwloc.
function(mn_find_library name header library)
  find_path(MN_${name}_INCLUDE ${header} REQUIRED)
  find_library(MN_${name}_LIBRARY ${library} REQUIRED)
  mark_as_advanced(MN_${name}_INCLUDE MN_${name}_LIBRARY)
  add_library(mn_${name} INTERFACE IMPORTED GLOBAL)
  target_include_directories(mn_${name} SYSTEM INTERFACE ${MN_${name}_INCLUDE})
  target_link_libraries(mn_${name} INTERFACE ${MN_${name}_LIBRARY})
endfunction()
mn_find_library(hwloc hwloc.h hwloc)
mn_find_library(isal isa-l/crc.h isal)
mn_find_library(xxhash xxhash.h xxhash)
mn_find_library(turbojpeg turbojpeg.h turbojpeg)

# GPU support needs the toolkit to compile and, where torch is used, a libtorch that was built for CUDA.
if(NOT MN_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 12 QUIET)
endif()
if(MN_HAVE_TORCH AND NOT MN_TORCH_HAS_CUDA)
  set(MN_TORCH_ALLOWS_CUDA OFF)
else()
  set(MN_TORCH_ALLOWS_CUDA ON)
endif()
if(NOT MN_CUDA STREQUAL "OFF" AND CUDAToolkit_FOUND AND MN_TORCH_ALLOWS_CUDA)
  set(MN_HAVE_CUDA ON)
else()
  set(MN_HAVE_CUDA OFF)
  if(MN_CUDA STREQUAL "ON")
    message(FATAL_ERROR "MN_CUDA=ON, but there is no CUDA toolkit or libtorch was built without CUDA: "
                        "load the cluster's cuda module, set CUDAToolkit_ROOT, or configure with -DMN_CUDA=OFF")
  endif()
endif()

message(STATUS "mn: libtorch ${MN_HAVE_TORCH} (${MN_TORCH_DIR}), CUDA ${MN_HAVE_CUDA}, MPI ${MPI_CXX_LIBRARY_VERSION_STRING}")
