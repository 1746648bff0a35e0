# Imported targets for every third-party library that mn links. Read by the tree and by the installed package. Sets
# MN_HAVE_TORCH, MN_HAVE_CUDA, MN_HAVE_NCCL, MN_HAVE_WEBP, MN_HAVE_TIFF, MN_HAVE_ZSTD, MN_HAVE_LZMA and
# MN_HAVE_PARQUET.
include(${CMAKE_CURRENT_LIST_DIR}/MnCoreDependencies.cmake)

set(MPI_CXX_SKIP_MPICXX ON)  # without the C++ bindings, which MPI-3 removed
mn_require(MPI COMPONENTS CXX)
mn_require(HDF5 1.10 COMPONENTS C)
mn_require(ZLIB)

mn_find_library(jpeg jpeglib.h jpeg)
mn_find_library(png png.h png)
target_link_libraries(mn_png INTERFACE ZLIB::ZLIB)  # for a static libpng

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
  if(MN_TORCH_CUDA AND NOT MN_TORCH_CUDA EQUAL CUDAToolkit_VERSION_MAJOR)
    message(WARNING "libtorch ${MN_TORCH_VERSION} in ${MN_TORCH_DIR} is for CUDA ${MN_TORCH_CUDA}, the toolkit is "
                    "${CUDAToolkit_VERSION}: set CUDAToolkit_ROOT to a toolkit ${MN_TORCH_CUDA}, or take another libtorch")
  endif()
  mn_torch_link_cuda()
endif()
include(${CMAKE_CURRENT_LIST_DIR}/MnNccl.cmake)

if(NOT CMAKE_FIND_PACKAGE_NAME)
  message(STATUS "mn: libtorch ${MN_TORCH_VERSION} (${MN_TORCH_DIR}), CUDA ${MN_HAVE_CUDA}, NCCL ${MN_NCCL_VERSION}, WebP ${MN_HAVE_WEBP}, TIFF ${MN_HAVE_TIFF}, zstd ${MN_HAVE_ZSTD}, xz ${MN_HAVE_LZMA}, Parquet ${MN_HAVE_PARQUET}, MPI ${MPI_CXX_LIBRARIES}")
endif()
