/// Tests of backends with buffers on GPUs. Any number of ranks may share one GPU: each rank then counts as a host.
#pragma once

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <mpi.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/device/cuda.hpp>

#include "tests/comm/device_memory.hpp"
#include "tests/comm/values.hpp"

namespace mn::testing {

/// Communicators that test cases share, because NCCL needs 0.5 s to destroy one. They are destroyed after the tests.
class SharedCommunicators final : public ::testing::Environment {
 public:
  [[nodiscard]] static std::map<std::string, std::shared_ptr<Communicator>>& all() {
    static auto* const environment =
        static_cast<SharedCommunicators*>(::testing::AddGlobalTestEnvironment(new SharedCommunicators));
    return environment->all_;
  }
  void TearDown() override { all_.clear(); }

 private:
  std::map<std::string, std::shared_ptr<Communicator>> all_;
};

class OnGpu : public ::testing::Test {
 protected:
  OnGpu() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
    device_ = {DeviceType::kCuda, rank_ % cuda_device_count()};
    if (cuda_device_count() < size_) {
      setenv("NCCL_HOSTID", ("h" + std::to_string(rank_)).c_str(), 1);
      setenv("NCCL_SOCKET_IFNAME", "lo", 1);
    }
  }
  ~OnGpu() override {
    unsetenv("NCCL_HOSTID");
    unsetenv("MN_NODE_NAME");
  }

  /// Later communicators see so many nodes: rank r is on node r % nodes.
  void pretend_nodes(int nodes) {
    nodes_ = nodes;
    setenv("MN_NODE_NAME", ("node" + std::to_string(rank_ % nodes)).c_str(), 1);
  }
  [[nodiscard]] std::shared_ptr<Communicator> create(const std::string& name, std::optional<DType> wire = {},
                                                     std::optional<bool> debug = {}) const {
    CommunicatorOptions options;
    options.device = device_;
    options.debug = debug;
    options.allreduce_grad_dtype = wire;
    return create_communicator(name, MPI_COMM_WORLD, options);
  }
  /// One communicator for all test cases with equal arguments: no test case may break it.
  [[nodiscard]] std::shared_ptr<Communicator> shared(const std::string& name, std::optional<DType> wire = {}) const {
    const std::string key = name + "/" + std::to_string(nodes_) + "/" + (wire ? std::string(name_of(*wire)) : "");
    std::shared_ptr<Communicator>& found = SharedCommunicators::all()[key];
    if (!found) found = create(name, wire);
    return found;
  }
  template <class T>
  [[nodiscard]] OnDevice<T> mine(std::size_t count) const {
    return {filled<T>(count, [&](std::size_t i) { return pattern(rank_, i); }), device_};
  }
  [[nodiscard]] double sum_at(std::size_t i) const {
    double sum = 0;
    for (int r = 0; r < size_; ++r) sum += pattern(r, i);
    return sum;
  }
  template <class T>
  void expect_sums(const OnDevice<T>& buffer, double scale) const {
    const auto values = numbers(buffer.get());
    int wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) wrong += values[i] != scale * sum_at(i);
    EXPECT_EQ(wrong, 0) << name_of(dtype_of<T>()) << " × " << values.size();
  }

  int rank_ = 0;
  int size_ = 1;
  int nodes_ = 0;  // 0: no pretended nodes
  Device device_;
};

/// The whole as two pieces: contiguous, or swapped, which must be packed.
inline std::vector<BufferView> two_pieces(BufferView whole, bool in_order) {
  const std::size_t half = whole.count / 2;
  const BufferView first = whole.slice(0, half);
  const BufferView second = whole.slice(half, whole.count - half);
  if (in_order) return {first, second};
  return {second, first};
}

}  // namespace mn::testing
