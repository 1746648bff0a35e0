/// Finds the values of a graph that share memory, from the operators' schemas.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Numbers the storages of a graph's values, node by node. A view has the storage of its base.
class Storages {
 public:
  /// Input i has storage i.
  explicit Storages(const std::vector<std::string>& inputs);
  /// Input i of the program has storage i, but tied tensors have the storage of the first tied input.
  explicit Storages(const Program& program);

  [[nodiscard]] std::size_t of(const std::string& value) const;
  /// The storages that the node's operator writes to.
  [[nodiscard]] std::vector<std::size_t> written_by(const Node& node) const;
  /// Gives the node's results their storages. Call it once for each node, in the order of the graph.
  void define_results(const Node& node);

 private:
  std::map<std::string, std::size_t> storages_;
  std::size_t count_;
};

}  // namespace mn::exported
