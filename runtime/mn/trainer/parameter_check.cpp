#include <mn/trainer/parameter_check.hpp>

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include <mn/core/checksum.hpp>
#include <mn/core/environment.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>
#include <mn/optimizers/master_weights.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

std::uint64_t hash_of(const at::Tensor& parameter) {
  const at::Tensor host = parameter.detach().contiguous().cpu();
  return hash64(std::span(static_cast<const std::byte*>(host.const_data_ptr()), host.nbytes()));
}

/// Returns the ranks whose hash differs from the most frequent hash. If several hashes are equally frequent, the hash
/// of the lowest rank counts as the most frequent.
std::vector<std::size_t> different_ranks(const std::vector<std::uint64_t>& hashes) {
  std::map<std::uint64_t, int> counts;
  for (const std::uint64_t hash : hashes) ++counts[hash];
  const std::uint64_t usual =
      *std::ranges::max_element(hashes, {}, [&](std::uint64_t hash) { return counts.at(hash); });
  std::vector<std::size_t> ranks;
  for (std::size_t rank = 0; rank < hashes.size(); ++rank) {
    if (hashes[rank] != usual) ranks.push_back(rank);
  }
  return ranks;
}

std::string names_of(const std::vector<std::size_t>& ranks, const std::vector<nlohmann::json>& names) {
  constexpr std::size_t kMaxNamed = 8;
  const auto named = std::span(ranks).first(std::min(ranks.size(), kMaxNamed));
  const std::string text = join(named, ", ", [&](std::size_t rank) { return names[rank].get<std::string>(); });
  return ranks.size() <= kMaxNamed ? text : text + " and " + std::to_string(ranks.size() - kMaxNamed) + " more";
}

/// Collective: returns the difference that the lowest rank has found.
std::optional<DifferentParameter> first_of(const std::optional<DifferentParameter>& own, Communicator& comm) {
  const auto found = own ? nlohmann::json({own->index, own->ranks}) : nlohmann::json();
  for (const nlohmann::json& each : comm.allgather_obj(found)) {
    if (!each.is_null()) return DifferentParameter{each.at(0).get<std::size_t>(), each.at(1).get<std::string>()};
  }
  return std::nullopt;
}

}  // namespace

std::optional<DifferentParameter> find_difference(const std::vector<at::Tensor>& parameters, Communicator& comm,
                                                  const Communicator& all_ranks) {
  std::vector<std::uint64_t> own;
  for (const at::Tensor& parameter : parameters) own.push_back(hash_of(parameter));
  const std::uint64_t together = hash64(std::as_bytes(std::span(std::as_const(own))));
  if (same_on_all_ranks(together, comm)) return std::nullopt;
  const std::size_t count = own.size();
  const auto size = static_cast<std::size_t>(comm.size());
  std::vector<std::uint64_t> all(count * size);  // [ranks, parameters]
  comm.allgather(std::span(own), std::span(all));
  const auto names =
      comm.allgather_obj(nlohmann::json("rank " + std::to_string(all_ranks.rank()) + " (host " + host_name() + ")"));
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<std::uint64_t> hashes;
    for (std::size_t rank = 0; rank < size; ++rank) hashes.push_back(all[rank * count + i]);
    const std::vector<std::size_t> ranks = different_ranks(hashes);
    if (!ranks.empty()) return DifferentParameter{i, names_of(ranks, names)};
  }
  throw DataError("the ranks' parameters differ", true);
}

void ParameterCheck::after_update(const std::vector<at::Tensor>& all, Communicator& comm, Communicator* replicas) {
  ++updates_;
  const bool is_due = every_ > 0 && (updates_ - 1) % every_ == 0;
  if (comm.size() == 1 || !(is_due || comm.debug())) return;
  std::vector<at::Tensor> parameters, weights;
  for (const at::Tensor& parameter : all) {
    if (is_in_pieces(parameter)) continue;  // an expert
    parameters.push_back(parameter);
    weights.push_back(exact_weight(optimizer_, parameter));
  }
  auto different = find_difference(weights, replicas != nullptr ? *replicas : comm, comm);
  if (replicas != nullptr) different = first_of(different, comm);  // groups of replicas find different parameters
  if (!different) return;
  const auto piece = find_piece(parameters[different->index]);
  const at::Tensor& parameter = piece ? piece->whole : parameters[different->index];
  throw DataError("after " + std::to_string(updates_) + " updates " + tensor_name(parameter, different->index) +
                      " on " + different->ranks +
                      " has other values than on the other ranks: something has changed it there alone (code that "
                      "depends on the rank, faulty memory, a processor that rounds differently); find that, and "
                      "resume from an earlier checkpoint",
                  true);
}

}  // namespace mn
