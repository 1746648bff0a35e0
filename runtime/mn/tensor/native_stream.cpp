#include <mn/tensor/native_stream.hpp>

#ifdef MN_CUDA_STREAMS
#include <c10/cuda/CUDAStream.h>
#endif

namespace mn {
namespace {

/// libtorch before 2.11 tells only the streams of CUDA, by a function of libtorch's CUDA library.
template <class Stream>
void* handle_of(const Stream& stream) {
  if constexpr (requires { stream.native_handle(); }) {
    return stream.native_handle();
  } else {
#ifdef MN_CUDA_STREAMS
    return c10::cuda::CUDAStream(stream).stream();
#else
    TORCH_CHECK(false, "this libtorch does not tell the handle of ", stream);
#endif
  }
}

}  // namespace

void* native_stream(const c10::Stream& stream) { return handle_of(stream); }

}  // namespace mn
