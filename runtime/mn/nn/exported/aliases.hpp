/// Finds out from the operators' schemas which values of a graph share memory.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Numbers the storage (the memory) of each value of a graph. Aliases, such as a view and its base, have equal numbers.
class Aliases {
 public:
  /// The storage of input i has number i.
  explicit Aliases(const std::vector<std::string>& inputs);
  /// Input i of the program has storage i. If several inputs are tied (one tensor), all have the number of the first.
  explicit Aliases(const Program& program);

  [[nodiscard]] std::size_t of(const std::string& value) const;
  [[nodiscard]] std::vector<std::size_t> written_by(const Node& node) const;
  /// Numbers the node's results. Call it once for each node, in the order of the graph.
  void define_results(const Node& node);

 private:
  std::map<std::string, std::size_t> storages_;
  std::size_t count_;
};

}  // namespace mn::exported
