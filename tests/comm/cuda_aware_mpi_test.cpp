// An MPI that takes device pointers never gets memory with pending work, because MPI knows no streams. The program's
// MPI_… functions replace the library's (MPI's profiling interface).
#include <algorithm>
#include <chrono>
#include <thread>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/comm/gpu_fixture.hpp"

namespace {

/// The only device buffer that MPI may get, and a flag that MPI got the buffer.
struct Known {
  std::byte* begin = nullptr;
  std::size_t bytes = 0;
  int calls = 0;
} known;

/// MPI's view of the buffer: host memory during the call. The copies wait for no other stream.
class Copied {
 public:
  explicit Copied(const void* data) : data_(data), host_(known.bytes) {
    if (!is_known()) return;
    ++known.calls;
    copy(host_.data(), known.begin, cudaMemcpyDeviceToHost);
  }
  [[nodiscard]] void* get() { return is_known() ? host_.data() : const_cast<void*>(data_); }
  void give_back() {
    if (is_known()) copy(known.begin, host_.data(), cudaMemcpyHostToDevice);
  }

 private:
  [[nodiscard]] bool is_known() const { return data_ != nullptr && data_ == known.begin; }
  void copy(void* to, const void* from, cudaMemcpyKind kind) const {
    cudaStream_t stream = nullptr;
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(to, from, known.bytes, kind, stream), cudaSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaSuccess);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }

  const void* data_;
  std::vector<std::byte> host_;
};

}  // namespace

extern "C" {
int MPIX_Query_cuda_support() { return 1; }
int MPI_Bcast(void* data, int count, MPI_Datatype type, int root, MPI_Comm comm) {
  Copied copied(data);
  const int code = PMPI_Bcast(copied.get(), count, type, root, comm);
  copied.give_back();
  return code;
}
int MPI_Send(const void* data, int count, MPI_Datatype type, int dest, int tag, MPI_Comm comm) {
  Copied copied(data);
  return PMPI_Send(copied.get(), count, type, dest, tag, comm);
}
int MPI_Recv(void* data, int count, MPI_Datatype type, int source, int tag, MPI_Comm comm, MPI_Status* status) {
  Copied copied(data);
  const int code = PMPI_Recv(copied.get(), count, type, source, tag, comm, status);
  copied.give_back();
  return code;
}
}

namespace mn {
namespace {

using testing::filled;
using testing::OnDevice;
using testing::OnGpu;
using testing::pattern;

class CudaAwareMpi : public OnGpu {
 protected:
  CudaAwareMpi() {
    cuda_set_device(device_.index);
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), cudaSuccess);
    known = {static_cast<std::byte*>(buffer_.view().data), buffer_.view().bytes(), 0};
  }
  ~CudaAwareMpi() override {
    known = {};
    EXPECT_EQ(cudaStreamDestroy(stream_), cudaSuccess);
  }
  [[nodiscard]] static std::vector<float> of(int rank) {
    return filled<float>(kCount, [&](std::size_t i) { return pattern(rank, i); });
  }
  /// The buffer; a stream writes the rank's values into it, late.
  BufferView late() {
    const auto pause = [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
    EXPECT_EQ(cudaLaunchHostFunc(stream_, pause, nullptr), cudaSuccess);
    EXPECT_EQ(cudaMemcpyAsync(buffer_.view().data, values_.view().data, values_.view().bytes(),
                              cudaMemcpyDeviceToDevice, stream_),
              cudaSuccess);
    return buffer_.view().on_stream(stream_);
  }
  std::vector<float> once_done() {
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return buffer_.get();
  }

  static constexpr std::size_t kCount = 4099;  // too many for a first message, which always takes host memory
  OnDevice<float> values_{of(rank_), device_};
  OnDevice<float> buffer_{std::vector<float>(kCount, -1.0F), device_};
  cudaStream_t stream_ = nullptr;
};

TEST_F(CudaAwareMpi, Broadcasts) {
  const auto comm = create("flat");
  comm->bcast(late(), size_ - 1);
  EXPECT_EQ(once_done(), of(size_ - 1));
  EXPECT_EQ(known.calls, 1) << "MPI was given the device's memory";
}

TEST_F(CudaAwareMpi, Messages_from_2_ranks) {
  const auto comm = create("flat");
  const int peer = rank_ ^ 1;
  if (peer >= size_) return;
  if (rank_ < peer) {
    comm->send(late(), peer);
    EXPECT_EQ(once_done(), of(rank_));
  } else {
    comm->recv(late(), peer);
    EXPECT_EQ(once_done(), of(peer));
  }
  EXPECT_EQ(known.calls, 1);
}

TEST_F(CudaAwareMpi, ReductionsAreStaged) {
  const auto comm = create("flat");
  comm->allreduce(late());
  EXPECT_EQ(known.calls, 0);
  const auto sums = filled<float>(kCount, [&](std::size_t i) { return static_cast<int>(sum_at(i)); });
  EXPECT_EQ(once_done(), sums);
}

}  // namespace
}  // namespace mn
