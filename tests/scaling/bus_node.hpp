/// What the ranks of a node do in shared memory, by messages over the node's simulated buses.
#pragma once

#include <functional>
#include <vector>

#include <mpi.h>

#include <mn/comm/mpi/mpi.hpp>
#include <mn/comm/mpi/reduce.hpp>
#include <mn/comm/node/slice_exchange.hpp>

namespace mn::scaling {

inline constexpr Reduction kSum{DType::kFloat32, ReduceOp::kSum};

/// A node's ranks, each with its buffer: what NodeReducer does through shared memory, by messages over the
/// buses.
class BusNode final : public SliceExchange::Node {
 public:
  BusNode(MPI_Comm node, const SliceExchange& exchange, float* data, std::size_t most)
      : node_(node), exchange_(exchange), data_(data), most_(most) {
    mpi_check(MPI_Comm_rank(node, &rank_));
    mpi_check(MPI_Comm_size(node, &ranks_));
  }

  void reduce(Range piece, Range own) override {
    received_.resize(own.length * static_cast<std::size_t>(ranks_));
    const auto part = [&](int rank) { return received_.data() + static_cast<std::size_t>(rank) * own.length; };
    exchange([&](int to) { return slice(to, piece); }, [&](int from) { return Part{part(from), own.length}; });
    std::vector<const void*> inputs;
    for (int r = 0; r < ranks_; ++r) inputs.push_back(r == rank_ ? data_ + own.first : part(r));
    void* out = data_ + own.first;
    reduce_in_order({&out, 1}, inputs, own.length, kSum);
  }
  void spread(Range piece, Range own) override {
    exchange([&](int) { return Part{data_ + own.first, own.length}; }, [&](int from) { return slice(from, piece); });
  }

 private:
  struct Part {
    float* data;
    std::size_t length;
  };

  [[nodiscard]] Part slice(int rank, Range piece) const {
    const Range range = exchange_.slice_of(rank, most_, piece.length);
    return {data_ + piece.first + range.first, range.length};
  }
  /// With every other rank at once: each has links of its own to all.
  void exchange(const std::function<Part(int)>& sent, const std::function<Part(int)>& received) {
    std::vector<MPI_Request> requests;
    const auto post = [&](const Part& part, int other, auto call) {
      if (part.length == 0) return;
      requests.emplace_back();
      mpi_check(call(part.data, static_cast<int>(part.length), MPI_FLOAT, other, 3, node_, &requests.back()));
    };
    for (int step = 1; step < ranks_; ++step) {
      const int from = (rank_ + ranks_ - step) % ranks_;
      post(received(from), from, [](auto... values) { return MPI_Irecv(values...); });
    }
    for (int step = 1; step < ranks_; ++step) {
      const int to = (rank_ + step) % ranks_;
      post(sent(to), to, [](auto... values) { return MPI_Isend(values...); });
    }
    mpi_check(MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE));
  }

  MPI_Comm node_;
  const SliceExchange& exchange_;
  float* data_;
  std::size_t most_;
  int rank_ = 0;
  int ranks_ = 1;
  std::vector<float> received_;
};

}  // namespace mn::scaling
