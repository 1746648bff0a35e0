#include <source_location>
#include <string>

#include <cuda_runtime_api.h>

#include <mn/comm/cuda.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

void cuda_check(cudaError_t code, const std::string& operation, std::size_t bytes = 0,
                std::source_location where = std::source_location::current()) {
  if (code == cudaSuccess) return;
  const std::string size = bytes > 0 ? " of " + std::to_string(bytes) + " bytes" : "";
  throw CommError(operation + size + " failed: " + cudaGetErrorString(code) + " (" + cudaGetErrorName(code) +
                  ", line " + std::to_string(where.line()) + " of cuda.cpp)");
}

cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }

}  // namespace

int cuda_device_count() noexcept {
  int count = 0;
  if (cudaGetDeviceCount(&count) == cudaSuccess) return count;
  static_cast<void>(cudaGetLastError());  // no driver or no GPU: not an error that a later call should report
  return 0;
}

void cuda_set_device(int index) {
  const int count = cuda_device_count();
  if (index >= count) {
    throw UsageError("device cuda:" + std::to_string(index) + " is asked for, but this process sees " +
                     std::to_string(count) + " GPUs: check --device, MN_DEVICE and CUDA_VISIBLE_DEVICES");
  }
  cuda_check(cudaSetDevice(index), "cudaSetDevice(" + std::to_string(index) + ")");
}

void HostPinnedDeleter::operator()(std::byte* memory) const noexcept {
  if (cudaFreeHost(memory) != cudaSuccess) log_warning("cudaFreeHost failed");
}

HostPinned cuda_allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  cuda_check(cudaMallocHost(&memory, bytes), "allocating page-locked memory", bytes);
  return HostPinned(static_cast<std::byte*>(memory));
}

CudaStream::CudaStream(int device) : device_(device) {
  cuda_set_device(device);
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreate(&stream), "cudaStreamCreate");  // blocking: ordered after the legacy default stream
  stream_ = stream;
}

CudaStream::~CudaStream() {
  if (stream_ != nullptr && cudaStreamDestroy(as_stream(stream_)) != cudaSuccess)
    log_warning("cudaStreamDestroy failed");
}

void CudaStream::copy_to_host(void* host, const void* device, std::size_t bytes) {
  cuda_check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, as_stream(stream_)),
             "copying from cuda:" + std::to_string(device_), bytes);
}

void CudaStream::copy_to_device(void* device, const void* host, std::size_t bytes) {
  cuda_check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, as_stream(stream_)),
             "copying to cuda:" + std::to_string(device_), bytes);
}

void CudaStream::synchronize() { cuda_check(cudaStreamSynchronize(as_stream(stream_)), "cudaStreamSynchronize"); }

}  // namespace mn
