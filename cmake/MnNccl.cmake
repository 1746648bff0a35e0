# Imported target mn_nccl, and MN_NCCL_VERSION. A process must load one libnccl only, so libtorch's libnccl is taken,
# from the wheel's packages beside libtorch_cuda. Without it, and in builds without libtorch, $NCCL_ROOT and the CUDA
# toolkit are searched; libtorch then loads the same library, because the soname is equal.
set(MN_HAVE_NCCL OFF)
set(MN_NCCL_VERSION none)
if(MN_HAVE_CUDA AND NOT MN_NCCL STREQUAL "OFF")
  if(MN_HAVE_TORCH)
    set(MN_NCCL_OF_TORCH ${MN_TORCH_DIR}/../nvidia/nccl)
  endif()
  find_path(MN_NCCL_INCLUDE nccl.h HINTS $ENV{NCCL_ROOT} ${NCCL_ROOT} ${MN_NCCL_OF_TORCH} ${CUDAToolkit_INCLUDE_DIRS}
            PATH_SUFFIXES include)
  find_library(MN_NCCL_LIBRARY NAMES nccl libnccl.so.2 NAMES_PER_DIR HINTS $ENV{NCCL_ROOT} ${NCCL_ROOT} ${MN_NCCL_OF_TORCH}
               ${CUDAToolkit_LIBRARY_DIR} PATH_SUFFIXES lib lib64)
  mark_as_advanced(MN_NCCL_INCLUDE MN_NCCL_LIBRARY)
endif()
if(NOT MN_HAVE_CUDA OR MN_NCCL STREQUAL "OFF" OR NOT MN_NCCL_INCLUDE OR NOT MN_NCCL_LIBRARY)
  if(MN_NCCL STREQUAL "ON")
    message(FATAL_ERROR "mn with NCCL was asked for, but there is no CUDA or no NCCL: load the cluster's nccl module, "
                        "set NCCL_ROOT to the folder that holds include/nccl.h, or configure with -DMN_NCCL=OFF")
  elseif(MN_HAVE_CUDA AND NOT CMAKE_FIND_PACKAGE_NAME)
    message(WARNING "mn without NCCL: gradients on GPUs will go through host memory and MPI, which is slow; the "
                    "communicators pure_nccl and non_cuda_aware are left out. NCCL_ROOT says where NCCL is")
  endif()
  return()
endif()
set(MN_HAVE_NCCL ON)

file(STRINGS ${MN_NCCL_INCLUDE}/nccl.h MN_NCCL_LINES REGEX "#define NCCL_(MAJOR|MINOR|PATCH) ")
string(REGEX MATCHALL "[0-9]+" MN_NCCL_NUMBERS "${MN_NCCL_LINES}")
list(JOIN MN_NCCL_NUMBERS . MN_NCCL_VERSION)
if(MN_NCCL_VERSION VERSION_LESS 2.14)
  message(FATAL_ERROR "NCCL ${MN_NCCL_VERSION} in ${MN_NCCL_INCLUDE} is too old: 2.14 is needed")
endif()

if(NOT TARGET mn_nccl)
  get_filename_component(MN_NCCL_LIBRARY_DIR ${MN_NCCL_LIBRARY} DIRECTORY)
  add_library(mn_nccl INTERFACE IMPORTED GLOBAL)
  target_include_directories(mn_nccl SYSTEM INTERFACE ${MN_NCCL_INCLUDE})
  target_link_options(mn_nccl INTERFACE "LINKER:-rpath,${MN_NCCL_LIBRARY_DIR}")
  target_link_libraries(mn_nccl INTERFACE ${MN_NCCL_LIBRARY} CUDA::cudart)
endif()
