# mn_compile_cuda(objects a.cu): compiles the file with nvcc and sets `objects` for the SOURCES of a target. By hand,
# because CMake 3.25 knows neither C++20 for CUDA nor the architectures of CUDA 13, and would link a second CUDA
# runtime.
#
# MN_CUDA_ARCH is nvcc's -arch. By default release builds run on every GPU generation that the toolkit supports, other
# builds only on this machine's GPU, which compiles faster.
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
