/// Base of random programs: dice, groups of ranks, calls of ranks in the order of time.
#pragma once

#include <optional>
#include <random>
#include <vector>

#include "tests/comm/programs/program.hpp"

namespace mn::testing {

/// The generator (generator.cpp) derives from it.
class ProgramBuilder {
 protected:
  /// The program's communicators, and no calls.
  ProgramBuilder(std::uint64_t seed, const Machine& machine);
  ~ProgramBuilder() = default;

  [[nodiscard]] std::size_t below(std::size_t end) { return random_() % end; }
  [[nodiscard]] bool chance(std::size_t one_in) { return below(one_in) == 0; }
  template <class Range>
  [[nodiscard]] auto& any_of(Range& range) {
    return range[below(std::size(range))];
  }
  [[nodiscard]] int rank_of(std::size_t group) { return static_cast<int>(below(members(group).size())); }
  [[nodiscard]] const std::vector<int>& members(std::size_t group) const { return program_.groups[group].members; }
  [[nodiscard]] std::size_t any_group() { return below(program_.groups.size()); }

  void add(int world_rank, const Action& action) {
    program_.actions[static_cast<std::size_t>(world_rank)].push_back(action);
  }
  void add(std::size_t group, int rank, const Action& action) {
    add(members(group)[static_cast<std::size_t>(rank)], action);
  }
  /// The next call, with a random dtype, count and memory.
  Action new_action(Call call, std::size_t group);

  std::mt19937_64 random_;
  Machine machine_;
  Program program_;
  int next_id_ = 1;

 private:
  void set_conditions();
  void make_groups();
};

}  // namespace mn::testing
