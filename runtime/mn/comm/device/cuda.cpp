#include <mn/comm/device/cuda.hpp>

#include <exception>
#include <system_error>
#include <thread>

#include <mn/comm/device/cuda_check.hpp>
#include <mn/comm/mpi/progress.hpp>
#include <mn/core/error.hpp>
#include <mn/core/log.hpp>

namespace mn {
namespace {

cudaStream_t as_stream(void* stream) { return static_cast<cudaStream_t>(stream); }
cudaEvent_t as_event(void* event) { return static_cast<cudaEvent_t>(event); }

/// True if `code` is no error. Otherwise clears the error, so that a later kernel launch does not report it.
bool succeeded(cudaError_t code) noexcept {
  if (code == cudaSuccess) return true;
  static_cast<void>(cudaGetLastError());
  return false;
}

/// Frees on a detached thread while an exception unwinds the stack: before CUDA frees memory, it waits for an idle
/// device, and the device may be in a collective that other ranks never join.
void free_memory(cudaError_t (*free)(void*), const char* name, void* memory) noexcept {
  const auto run = [=] {
    if (!succeeded(free(memory))) log_warning(std::string(name) + " failed");
  };
  if (std::uncaught_exceptions() == 0) return run();
  try {
    std::thread(run).detach();
  } catch (const std::system_error& error) {
    log_warning(std::string(name) + " is left out, as no thread can be started: " + error.what());
  }
}

}  // namespace

void cuda_check(cudaError_t code, std::string_view operation, std::size_t bytes, std::source_location where) {
  if (succeeded(code)) return;
  int device = -1;
  static_cast<void>(succeeded(cudaGetDevice(&device)));
  const std::string_view file(where.file_name());
  throw CommError(std::string(operation) + (bytes > 0 ? " of " + std::to_string(bytes) + " bytes" : "") +
                  " failed on cuda:" + std::to_string(device) + ": " + cudaGetErrorString(code) + " (" +
                  cudaGetErrorName(code) + ", " + std::string(file.substr(file.rfind('/') + 1)) + ":" +
                  std::to_string(where.line()) + ")");
}

int cuda_device_count() noexcept {
  int count = 0;
  return succeeded(cudaGetDeviceCount(&count)) ? count : 0;  // 0 without a driver or a GPU
}

void cuda_set_device(int index) {
  const int count = cuda_device_count();
  if (index >= count) {
    throw UsageError("device cuda:" + std::to_string(index) + " is asked for, but this process sees " +
                     std::to_string(count) + " GPUs: check --device, MN_DEVICE and CUDA_VISIBLE_DEVICES");
  }
  cuda_check(cudaSetDevice(index), "cudaSetDevice(" + std::to_string(index) + ")");
}

std::string cuda_bus_id(int index) {
  char text[32] = {};
  cuda_check(cudaDeviceGetPCIBusId(text, sizeof text, index), "cudaDeviceGetPCIBusId");
  return text;
}

void HostPinnedDeleter::operator()(std::byte* memory) const noexcept {
  free_memory(cudaFreeHost, "cudaFreeHost", memory);
}

HostPinned cuda_allocate_pinned(std::size_t bytes) {
  void* memory = nullptr;
  cuda_check(cudaMallocHost(&memory, bytes), "allocating page-locked memory", bytes);
  return HostPinned(static_cast<std::byte*>(memory));
}

void CudaMemoryDeleter::operator()(std::byte* memory) const noexcept { free_memory(cudaFree, "cudaFree", memory); }

CudaMemory cuda_allocate(std::size_t bytes) {
  void* memory = nullptr;
  cuda_check(cudaMalloc(&memory, bytes), "allocating device memory", bytes);
  return CudaMemory(static_cast<std::byte*>(memory));
}

CudaEvent cuda_create_event() {
  cudaEvent_t event = nullptr;
  cuda_check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "cudaEventCreateWithFlags");
  return CudaEvent(event);
}

CudaStream::CudaStream(int device) : device_(device) {
  cuda_set_device(device);
  int least = 0;
  int greatest = 0;
  cuda_check(cudaDeviceGetStreamPriorityRange(&least, &greatest), "cudaDeviceGetStreamPriorityRange");
  event_ = cuda_create_event();
  cudaStream_t stream = nullptr;
  cuda_check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest), "cudaStreamCreateWithPriority");
  stream_ = stream;
}

void CudaEventDeleter::operator()(void* event) const noexcept {
  if (!succeeded(cudaEventDestroy(as_event(event)))) log_warning("cudaEventDestroy failed");
}

CudaStream::~CudaStream() {
  if (!succeeded(cudaStreamDestroy(as_stream(stream_)))) log_warning("cudaStreamDestroy failed");
}

void CudaStream::copy_to_host(void* host, const void* device, std::size_t bytes) {
  cuda_check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, as_stream(stream_)),
             "copying from cuda:" + std::to_string(device_), bytes);
}

void CudaStream::copy_to_device(void* device, const void* host, std::size_t bytes) {
  cuda_check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, as_stream(stream_)),
             "copying to cuda:" + std::to_string(device_), bytes);
}

void CudaStream::copy_on_device(void* to, const void* from, std::size_t bytes) {
  cuda_check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, as_stream(stream_)),
             "copying on cuda:" + std::to_string(device_), bytes);
}

void CudaStream::put_in_order(void* first, void* second) {
  cuda_check(cudaSetDevice(device_), "cudaSetDevice");
  // A stream that already waits for an earlier record of the event keeps waiting for that record.
  cuda_check(cudaEventRecord(as_event(event_.get()), as_stream(first)), "cudaEventRecord");
  cuda_check(cudaStreamWaitEvent(as_stream(second), as_event(event_.get()), 0), "cudaStreamWaitEvent");
}

bool CudaStream::is_captured() const {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  cuda_check(cudaStreamIsCapturing(as_stream(stream_), &status), "cudaStreamIsCapturing");
  return status != cudaStreamCaptureStatusNone;
}

bool CudaStream::is_done() const {
  const cudaError_t state = cudaStreamQuery(as_stream(stream_));
  if (state == cudaErrorNotReady) return false;
  cuda_check(state, "work on a stream");
  return true;
}

void CudaStream::synchronize() {
  while (PendingRequest::any() && !is_done()) progress_mpi();
  cuda_check(cudaStreamSynchronize(as_stream(stream_)), "cudaStreamSynchronize");
}

}  // namespace mn
