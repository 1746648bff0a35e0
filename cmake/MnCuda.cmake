# mn_compile_cuda(objects a.cu): sets `objects` to what nvcc makes of the file, for a target's sources. By hand, as
# CMake 3.25 knows neither C++20 nor the architectures of CUDA 13, and would link a second CUDA runtime.
#
# MN_CUDA_ARCH is nvcc's -arch. By default releases run on every generation that the toolkit knows, other builds on this
# machine's GPU, which makes nvcc quick.
if(CMAKE_BUILD_TYPE STREQUAL "Release")
  set(MN_CUDA_ARCH_DEFAULT all-major)
elseif(EXISTS /dev/nvidiactl)
  set(MN_CUDA_ARCH_DEFAULT native)
else()
  set(MN_CUDA_ARCH_DEFAULT sm_80)
endif()
set(MN_CUDA_ARCH ${MN_CUDA_ARCH_DEFAULT} CACHE STRING "GPU architectures: nvcc's -arch (all-major, native, sm_90, …)")

function(mn_compile_cuda objects source)
  set(object ${CMAKE_CURRENT_BINARY_DIR}/${source}.o)
  if(MN_WERROR)
    set(werror --Werror all-warnings)
  endif()
  if(NOT MN_ASSERTS)
    set(no_asserts -DNDEBUG)
  endif()
  add_custom_command(
    OUTPUT ${object}
    COMMAND ${CMAKE_CXX_COMPILER_LAUNCHER} ${CUDAToolkit_NVCC_EXECUTABLE} -std=c++20 -O3 -arch=${MN_CUDA_ARCH} --expt-relaxed-constexpr
            -Xcompiler=-fPIC,-Wall,-Wextra ${werror} ${no_asserts} -ccbin ${CMAKE_CXX_COMPILER} -I${PROJECT_SOURCE_DIR}/runtime
            -MD -MF ${object}.d -c ${CMAKE_CURRENT_SOURCE_DIR}/${source} -o ${object}
    DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${source} DEPFILE ${object}.d
    COMMENT "Building CUDA object ${source}.o" VERBATIM)
  set(${objects} ${object} PARENT_SCOPE)
endfunction()
