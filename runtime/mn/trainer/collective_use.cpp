#include <mn/trainer/collective_use.hpp>

#include <span>

#include <mn/core/error.hpp>
#include <mn/sharding/shard_pass.hpp>

namespace mn {
namespace {

std::string absence(const std::string& who, const char* where, std::int64_t epoch) {
  return who + " has no samples in a step of epoch " + std::to_string(epoch) + " of " + where +
         ", but the loss makes collective calls (all_gather, MultiNodeBatchNorm, …), in which the other ranks wait for "
         "it: use a batch size of 2 at least, fewer ranks, or drop_last";
}

}  // namespace

void CollectiveUse::check_absence(const char* where, std::int64_t epoch) const {
  if (any_) throw ArgumentError(absence("this rank", where, epoch));
}

std::optional<int> CollectiveUse::rank_without_samples(std::int64_t samples, Communicator* comm) {
  if (is_known_ || comm == nullptr || comm->size() == 1) return std::nullopt;
  is_known_ = true;
  int empty = samples == 0 ? comm->rank() : -1;
  comm->allreduce(std::span(&empty, 1), ReduceOp::kMax);
  return empty < 0 ? std::nullopt : std::optional(empty);
}

void CollectiveUse::agree_on_none(bool forbidden, Communicator& comm, int empty, const char* where,
                                  std::int64_t epoch) {
  int any = forbidden ? 1 : 0;
  join_shard_passes();
  comm.allreduce(std::span(&any, 1), ReduceOp::kMax);
  if (any != 0) throw ArgumentError(absence("rank " + std::to_string(empty), where, epoch), true);
}

}  // namespace mn
