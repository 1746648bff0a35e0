/// Which values of a graph share memory, as the operators' schemas say.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// Numbers the storages of a graph's values, node by node: a view has the storage of what it looks at.
class Storages {
 public:
  /// Input i has storage i.
  explicit Storages(const std::vector<std::string>& inputs);
  /// The same of a program. Tied tensors have the storage of the first of them.
  explicit Storages(const Program& program);

  [[nodiscard]] std::size_t of(const std::string& value) const;
  /// The storages that the node's operator writes to.
  [[nodiscard]] std::vector<std::size_t> written_by(const Node& node) const;
  /// To be called once for each node, in order.
  void define_results(const Node& node);

 private:
  std::map<std::string, std::size_t> storages_;
  std::size_t count_;
};

}  // namespace mn::exported
