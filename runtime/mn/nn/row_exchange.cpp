#include <mn/nn/row_exchange.hpp>

#include <algorithm>
#include <numeric>
#include <span>
#include <string>
#include <utility>

#include <ATen/ops/argsort.h>
#include <ATen/ops/bincount.h>
#include <ATen/ops/cat.h>

#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>

namespace mn {
namespace {

/// Returns the number of rows for each rank, or −1 for each if `ranks` is not a list of integers in the right range.
std::vector<std::int64_t> counts_of(const at::Tensor& ranks, std::int64_t size) {
  const bool has_form = ranks.defined() && ranks.dim() == 1 && at::isIntegralType(ranks.scalar_type(), false);
  const bool is_empty = has_form && ranks.numel() == 0;
  if (!has_form || (!is_empty && (ranks.min().item<std::int64_t>() < 0 || ranks.max().item<std::int64_t>() >= size))) {
    return std::vector<std::int64_t>(static_cast<std::size_t>(size), -1);
  }
  const at::Tensor counts = at::bincount(ranks, {}, size).cpu();
  return {counts.const_data_ptr<std::int64_t>(), counts.const_data_ptr<std::int64_t>() + size};
}

}  // namespace

RowExchange::RowExchange(std::shared_ptr<Communicator> comm, const at::Tensor& ranks)
    : comm_(std::move(comm)),
      sent_(counts_of(ranks, comm_->size())),
      received_(static_cast<std::size_t>(comm_->size())) {
  comm_->alltoall(std::span(std::as_const(sent_)), std::span(received_));
  const auto bad = std::ranges::find(received_, -1);
  if (bad != received_.end()) {
    throw ArgumentError("RowExchange: rank " + std::to_string(bad - received_.begin()) +
                            " gave ranks that are not a list of integers from 0 to " +
                            std::to_string(comm_->size() - 1),
                        true);
  }
  order_ = at::argsort(ranks, /*stable=*/true, 0, /*descending=*/false);
  inverse_ = at::argsort(order_);
}

/// Collective. Throws on all ranks if the number of `rows` of any rank is not the sum of its `counts`.
void RowExchange::check(const at::Tensor& rows, const std::vector<std::int64_t>& counts) const {
  const std::int64_t wanted = std::reduce(counts.begin(), counts.end());
  const std::int64_t given = rows.defined() && rows.dim() > 0 ? rows.size(0) : -1;
  const std::int64_t own[] = {given, wanted};
  std::vector<std::int64_t> all(2 * static_cast<std::size_t>(comm_->size()));
  comm_->allgather(std::span(own), std::span(all));
  for (std::size_t rank = 0; 2 * rank < all.size(); ++rank) {
    const std::int64_t count = all[2 * rank];
    if (count == all[2 * rank + 1]) continue;
    throw ArgumentError("RowExchange: rank " + std::to_string(rank) + " gave " +
                            (count < 0 ? "no rows" : std::to_string(count) + " rows") + ", not " +
                            std::to_string(all[2 * rank + 1]),
                        true);
  }
}

at::Tensor RowExchange::send(const at::Tensor& rows) const {
  check(rows, sent_);
  return at::cat(alltoall(comm_, rows.index_select(0, order_).split_with_sizes(sent_)));
}

at::Tensor RowExchange::send_back(const at::Tensor& results) const {
  check(results, received_);
  return at::cat(alltoall(comm_, results.split_with_sizes(received_))).index_select(0, inverse_);
}

}  // namespace mn
