// The functions of cuda.hpp and pack.hpp in a build without CUDA.
#include <mn/comm/device/cuda.hpp>
#include <mn/comm/device/pack.hpp>
#include <mn/core/error.hpp>

namespace mn {
namespace {

[[noreturn]] void no_cuda() {
  throw UsageError("this build of mn has no CUDA support: use device cpu, or configure with -DMN_CUDA=ON");
}

}  // namespace

int cuda_device_count() noexcept { return 0; }
void cuda_set_device(int /*index*/) { no_cuda(); }
std::string cuda_bus_id(int /*index*/) { no_cuda(); }
void HostPinnedDeleter::operator()(std::byte* /*memory*/) const noexcept {}
HostPinned cuda_allocate_pinned(std::size_t /*bytes*/) { no_cuda(); }
void CudaMemoryDeleter::operator()(std::byte* /*memory*/) const noexcept {}
CudaMemory cuda_allocate(std::size_t /*bytes*/) { no_cuda(); }

CudaEvent cuda_create_event() { no_cuda(); }

void CudaEventDeleter::operator()(void* /*event*/) const noexcept {}

CudaStream::CudaStream(int device) : device_(device) { no_cuda(); }
CudaStream::~CudaStream() = default;
void CudaStream::copy_to_host(void* /*host*/, const void* /*device*/, std::size_t /*bytes*/) { no_cuda(); }
void CudaStream::copy_to_device(void* /*device*/, const void* /*host*/, std::size_t /*bytes*/) { no_cuda(); }
void CudaStream::copy_on_device(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) { no_cuda(); }
void CudaStream::put_in_order(void* /*first*/, void* /*second*/) { no_cuda(); }
bool CudaStream::is_captured() const { no_cuda(); }
bool CudaStream::is_done() const { no_cuda(); }
void CudaStream::synchronize() { no_cuda(); }

void pack_on_device(std::span<const PackPiece> /*pieces*/, DType /*from*/, DType /*to*/, double /*scale*/,
                    void* /*stream*/) {
  no_cuda();
}
void limit_norm_on_device(std::span<const PackPiece> /*pieces*/, DType /*dtype*/, const double* /*norm*/,
                          double /*max_norm*/, void* /*stream*/) {
  no_cuda();
}

}  // namespace mn
