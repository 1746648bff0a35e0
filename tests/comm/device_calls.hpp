/// Every backend for GPUs, on one node and on two, for tests of each call with buffers on the GPU and on the host.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "tests/comm/gpu_fixture.hpp"

namespace mn::testing {

using Ints = std::vector<std::int32_t>;

/// Backend, nodes (rank r is on node r % nodes), elements of a rank's part.
using DeviceCase = std::tuple<std::string, int, std::size_t>;

class DeviceCalls : public OnGpu, public ::testing::WithParamInterface<DeviceCase> {
 protected:
  DeviceCalls() {
    pretend_nodes(std::get<1>(GetParam()));
    comm_ = shared(std::get<0>(GetParam()));
  }

  [[nodiscard]] std::size_t part() const { return std::get<2>(GetParam()); }
  [[nodiscard]] std::size_t whole() const { return part() * static_cast<std::size_t>(size_); }
  [[nodiscard]] static Ints values_of(int rank, std::size_t count) {
    return filled<std::int32_t>(count, [&](std::size_t i) { return pattern(rank, i) + 1; });
  }
  [[nodiscard]] Ints own(std::size_t count) const { return values_of(rank_, count); }
  /// Part `index` of a whole.
  [[nodiscard]] Ints part_of(const Ints& values, int index) const {
    const auto first = values.begin() + static_cast<std::ptrdiff_t>(part()) * index;
    return {first, first + static_cast<std::ptrdiff_t>(part())};
  }
  /// what(rank), concatenated.
  [[nodiscard]] Ints from_all(const std::function<Ints(int rank)>& what) const {
    Ints all;
    for (int r = 0; r < size_; ++r) {
      const Ints theirs = what(r);
      all.insert(all.end(), theirs.begin(), theirs.end());
    }
    return all;
  }
  [[nodiscard]] Ints sums(std::size_t count) const {
    Ints sum(count, 0);
    for (int r = 0; r < size_; ++r) {
      const Ints theirs = values_of(r, count);
      for (std::size_t i = 0; i < count; ++i) sum[i] += theirs[i];
    }
    return sum;
  }

  using Call = std::function<void(ConstBufferView in, BufferView out)>;
  /// Expects that `call` computes `expected` from `in`, wherever the two lie, and does not change `in`. `out` has as
  /// many elements, all -9 before.
  void expect(const Ints& in, const Ints& expected, const Call& call) const {
    for (const bool in_on_gpu : {false, true}) {
      for (const bool out_on_gpu : {false, true}) {
        SCOPED_TRACE(std::string("in on the ") + (in_on_gpu ? "GPU" : "host") + ", out on the " +
                     (out_on_gpu ? "GPU" : "host"));
        Ints host_in = in;
        Ints host_out(expected.size(), -9);
        const OnDevice<std::int32_t> gpu_in(host_in, device_);
        const OnDevice<std::int32_t> gpu_out(host_out, device_);
        call(in_on_gpu ? gpu_in.view() : BufferView(host_in), out_on_gpu ? gpu_out.view() : BufferView(host_out));
        EXPECT_EQ(out_on_gpu ? gpu_out.get() : host_out, expected);
        EXPECT_EQ(in_on_gpu ? gpu_in.get() : host_in, in);
      }
    }
  }
  /// Values of a buffer that a call with a root ignores.
  [[nodiscard]] static Ints untouched(std::size_t count) { return Ints(count, -9); }

  std::shared_ptr<Communicator> comm_;
};

}  // namespace mn::testing
