#include <mn/trainer/replica_sets.hpp>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <string>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/log.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn {
namespace {

constexpr int kNone = -1;

/// Returns, for each rank, the number of the replica set to which the rank belongs.
std::vector<int> numbers_of(const std::vector<std::vector<int>>& sets, int ranks) {
  std::vector<int> numbers(static_cast<std::size_t>(ranks), kNone);
  for (std::size_t set = 0; set < sets.size(); ++set) {
    for (const int rank : sets[set]) {
      if (rank < 0 || rank >= ranks || numbers[static_cast<std::size_t>(rank)] != kNone) {
        throw ArgumentError("replica set " + std::to_string(set) + " lists rank " + std::to_string(rank) +
                                ", which is not one of the " + std::to_string(ranks) + " ranks or is in a set already",
                            true);
      }
      numbers[static_cast<std::size_t>(rank)] = static_cast<int>(set);
    }
  }
  int next = static_cast<int>(sets.size());
  for (int& number : numbers) {
    if (number == kNone) number = next++;
  }
  return numbers;
}

std::vector<std::int64_t> iterations_in(const std::filesystem::path& out) {
  std::vector<std::int64_t> iterations;
  for (const auto& path : find_checkpoints(out)) iterations.push_back(*checkpoint_iteration(path));
  std::ranges::sort(iterations);
  return iterations;
}

}  // namespace

ReplicaSet create_replica_set(Communicator& comm, const std::vector<std::vector<int>>& replica_sets,
                              const std::filesystem::path& out) {
  const int number = numbers_of(replica_sets, comm.size())[static_cast<std::size_t>(comm.rank())];
  return {comm.split(number, comm.rank()), number, out / ("set-" + std::to_string(number))};
}

bool resume_replica_sets(Communicator& comm, Trainer& trainer) {
  // Only the first rank of a set lists the set's checkpoints, because file systems may show a new folder late on other
  // nodes.
  const nlohmann::json own = trainer.is_root() ? nlohmann::json(iterations_in(trainer.out())) : nlohmann::json();
  std::optional<std::vector<std::int64_t>> common;
  for (const nlohmann::json& theirs : comm.allgather_obj(own)) {
    if (theirs.is_null()) continue;
    const auto iterations = theirs.get<std::vector<std::int64_t>>();
    std::vector<std::int64_t> both;
    if (common) std::ranges::set_intersection(*common, iterations, std::back_inserter(both));
    common = common ? both : iterations;
  }
  if (!common || common->empty()) {
    if (comm.rank() == 0) log_info("the replica sets have no checkpoint in common: training starts at the beginning");
    return false;
  }
  // The checkpoint may have another name, because a save that was killed while it replaced a checkpoint may have left
  // the folder under that name.
  const auto paths = find_checkpoints(trainer.out());
  const auto of_it = [&](const std::filesystem::path& path) { return checkpoint_iteration(path) == common->back(); };
  const auto found = std::ranges::find_if(paths, of_it);
  return trainer.resume((found == paths.end() ? checkpoint_path(trainer.out(), common->back()) : *found).string());
}

}  // namespace mn
