# Imported targets for every third-party library that mn links. Read by the tree and by the installed package. Sets
# MN_HAVE_TORCH, MN_HAVE_CUDA, MN_HAVE_NCCL, MN_HAVE_WEBP, MN_HAVE_TIFF, MN_HAVE_ZSTD, MN_HAVE_LZMA and
# MN_HAVE_PARQUET.
if(CMAKE_FIND_PACKAGE_NAME STREQUAL "mn")
  # In the package, find_package(mn) must report a missing library.
  include(CMakeFindDependencyMacro)
  macro(mn_require)
    find_dependency(${ARGN})
  endmacro()
else()
  macro(mn_require)
    find_package(${ARGN} REQUIRED)
  endmacro()
endif()

set(MPI_CXX_SKIP_MPICXX ON)  # without the C++ bindings, which MPI-3 removed
mn_require(MPI COMPONENTS CXX)
mn_require(Threads)
mn_require(HDF5 1.10 COMPONENTS C)
mn_require(nlohmann_json)
mn_require(ZLIB)

# Static if possible: then the programs run on nodes without Boost.
set(Boost_USE_STATIC_LIBS ON)
find_package(Boost 1.74 QUIET COMPONENTS log program_options)
if(NOT Boost_FOUND)
  set(Boost_USE_STATIC_LIBS OFF)
  mn_require(Boost 1.74 COMPONENTS log program_options)
endif()
unset(Boost_USE_STATIC_LIBS)

# Finds a library without a CMake package: mn_find_library(hwloc hwloc.h hwloc) makes the imported target mn_hwloc. Of
# several names the first one found counts. With OPTIONAL last, a missing library makes no target.
function(mn_find_library name header)
  set(names ${ARGN})
  if(NOT "OPTIONAL" IN_LIST names)
    set(required REQUIRED)
  endif()
  list(REMOVE_ITEM names OPTIONAL)
  find_path(MN_${name}_INCLUDE ${header} ${required})
  find_library(MN_${name}_LIBRARY NAMES ${names} ${required})
  mark_as_advanced(MN_${name}_INCLUDE MN_${name}_LIBRARY)
  if(MN_${name}_INCLUDE AND MN_${name}_LIBRARY AND NOT TARGET mn_${name})
    add_library(mn_${name} INTERFACE IMPORTED GLOBAL)
    target_include_directories(mn_${name} SYSTEM INTERFACE ${MN_${name}_INCLUDE})
    target_link_libraries(mn_${name} INTERFACE ${MN_${name}_LIBRARY})
  endif()
endfunction()
mn_find_library(hwloc hwloc.h hwloc)
mn_find_library(isal isa-l/crc.h isal)
mn_find_library(xxhash xxhash.h xxhash)
mn_find_library(jpeg jpeglib.h jpeg)
mn_find_library(png png.h png)
mn_find_library(sodium sodium.h libsodium.a sodium)

# Optional decoders: -DMN_WEBP=ON or OFF; by default on if the library is found. The installed package has the same
# decoders as the build.
function(mn_find_decoder name header library version_header version_line)
  string(TOUPPER ${name} upper)
  set(MN_HAVE_${upper} OFF PARENT_SCOPE)
  if("${MN_${upper}}" STREQUAL "OFF")
    return()
  endif()
  mn_find_library(${name} ${header} ${library} OPTIONAL)
  if(TARGET mn_${name} AND EXISTS "${MN_${name}_INCLUDE}/${version_header}")
    file(STRINGS "${MN_${name}_INCLUDE}/${version_header}" found REGEX "${version_line}")
  endif()
  if(found)
    set(MN_HAVE_${upper} ON PARENT_SCOPE)
  elseif("${MN_${upper}}" STREQUAL "ON")
    message(FATAL_ERROR "mn with lib${name} was asked for, but it is not there or too old: install it (lib${name}-dev), or "
                        "configure with -DMN_${upper}=OFF")
  endif()
endfunction()
mn_find_decoder(webp webp/decode.h webp webp/decode.h "WebPDecoderConfig")
mn_find_decoder(tiff tiffio.h tiff tiffio.h "TIFFOpenOptionsSetMaxSingleMemAlloc")  # since 4.5
mn_find_decoder(zstd zstd.h zstd zstd.h "ZSTD_d_windowLogMax")  # since 1.4
mn_find_decoder(lzma lzma.h lzma lzma.h "LZMA_H")
mn_find_decoder(parquet parquet/api/reader.h parquet parquet/parquet_version.h "PARQUET_VERSION_MAJOR")
if(MN_HAVE_PARQUET)
  mn_find_library(arrow arrow/api.h arrow)
endif()

include(${CMAKE_CURRENT_LIST_DIR}/MnTorch.cmake)

# GPU support needs the toolkit and, in builds with libtorch, a libtorch for CUDA.
set(MN_HAVE_CUDA OFF)
if(NOT MN_CUDA STREQUAL "OFF" AND (MN_TORCH_HAS_CUDA OR NOT MN_HAVE_TORCH))
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND)
    set(MN_HAVE_CUDA ON)
  endif()
endif()
if(MN_CUDA STREQUAL "ON" AND NOT MN_HAVE_CUDA)
  message(FATAL_ERROR "mn with CUDA was asked for, but there is no CUDA toolkit or libtorch was built without CUDA: load "
                      "the cluster's cuda module, set CUDAToolkit_ROOT, or configure with -DMN_CUDA=OFF")
endif()
if(MN_HAVE_CUDA AND MN_HAVE_TORCH)
  mn_torch_link_cuda()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/MnNccl.cmake)

if(NOT CMAKE_FIND_PACKAGE_NAME)
  message(STATUS "mn: libtorch ${MN_TORCH_VERSION} (${MN_TORCH_DIR}), CUDA ${MN_HAVE_CUDA}, NCCL ${MN_NCCL_VERSION}, WebP ${MN_HAVE_WEBP}, TIFF ${MN_HAVE_TIFF}, zstd ${MN_HAVE_ZSTD}, xz ${MN_HAVE_LZMA}, Parquet ${MN_HAVE_PARQUET}, MPI ${MPI_CXX_LIBRARIES}")
endif()
