/// Sends rows of a tensor to other ranks, and the results back. In a mixture of experts, for example, samples go to the
/// ranks of their experts.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>

#include <mn/comm/communicator.hpp>

namespace mn {

/// Row i of this rank's tensors goes to rank ranks[i]. Gradients pass through send() and send_back() as they pass
/// through alltoall(), and the rules of collectives.hpp apply.
///
///   const mn::RowExchange exchange(comm, expert.floor_divide(experts_of_a_rank));  // [N] the rank of each sample
///   const at::Tensor received = exchange.send(samples);                            // [R, …] of all ranks
///   const at::Tensor results = exchange.send_back(run_experts(received));          // [N, …] in the order of `samples`
class RowExchange {
 public:
  /// Collective. `ranks` is [N], an integer from 0 to comm->size() − 1 for each row. N may differ between ranks, and
  /// may be 0. Throws the same ArgumentError on every rank if the `ranks` of any rank are not such integers.
  RowExchange(std::shared_ptr<Communicator> comm, const at::Tensor& ranks);

  /// Collective. Sends the rows of `rows`, [N, …]. Returns the rows for this rank, [R, …]: rank 0's rows first, in rank
  /// 0's order. Throws the same ArgumentError on every rank if a rank's tensor does not have N rows.
  [[nodiscard]] at::Tensor send(const at::Tensor& rows) const;
  /// Collective. Sends the results of received rows, [R, …], to the ranks of the rows. Returns [N, …]: result i belongs
  /// to row i of send(). Throws the same ArgumentError on every rank if a rank's tensor does not have R rows.
  [[nodiscard]] at::Tensor send_back(const at::Tensor& results) const;

 private:
  void check(const at::Tensor& rows, const std::vector<std::int64_t>& counts) const;

  std::shared_ptr<Communicator> comm_;
  at::Tensor order_;                    // [N] the rows, sorted by rank
  at::Tensor inverse_;                  // [N] the position of each row in order_
  std::vector<std::int64_t> sent_;      // [ranks] number of rows for each rank
  std::vector<std::int64_t> received_;  // [ranks] number of rows from each rank
};

}  // namespace mn
