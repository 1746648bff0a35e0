/// An exported program: a graph of operators, and where its tensors lie in the archive.
#pragma once

#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <mn/nn/exported/argument.hpp>

namespace mn::exported {

/// The bounds of one dimension of an input. They are equal where torch.export fixed it.
struct Extent {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// Where a value comes from that no operator makes.
struct Input {
  enum class Kind {
    kUser,       ///< an argument of forward()
    kParameter,  ///< `target` names it
    kBuffer,     ///< `target` names it
    kConstant,   ///< a tensor that `target` names
    kLiteral,    ///< an argument of forward() that is not a tensor; its value at the export is `literal`
  };
  Kind kind = Kind::kUser;
  std::string value;  ///< its name in the graph
  std::string target = {};
  bool persistent = true;  ///< for a buffer: whether it belongs to the model's state
  Argument literal = {};
  std::int64_t dtype = 0;            ///< dtype of a user's input, as torch._export.serde.schema.ScalarType
  std::vector<Extent> extents = {};  ///< shape of a user's input
};

/// Whether the input belongs to the model's state, which Python's state_dict() has.
[[nodiscard]] inline bool is_state(const Input& input) {
  return input.kind == Input::Kind::kParameter || (input.kind == Input::Kind::kBuffer && input.persistent);
}

/// What becomes of one of the graph's outputs.
struct Output {
  std::string name = {};  ///< one that the model returns: its path there, "logits" or "0" or "hidden.1"
  std::optional<std::vector<std::int64_t>> sizes = {};  ///< its shape, if the file has it; −1 for a size that varies
  std::string buffer = {};                              ///< not empty: forward() copies the value there instead
};

/// An argument under the name that the operator's schema has for it.
struct NamedArgument {
  std::string name;
  Argument value;
};

struct Graph;

/// A call of an operator.
struct Node {
  std::string target;  ///< the operator: "torch.ops.aten.add.Tensor"
  std::string what;    ///< how messages call the node
  std::vector<NamedArgument> inputs = {};
  std::vector<Argument> outputs = {};
  bool grad = true;                     ///< false: within torch.no_grad()
  bool autocast = true;                 ///< false: within torch.autocast(enabled=False)
  std::vector<Graph> graphs;            ///< that the operator runs (torch.cond, …); the inputs are without them
  bool has_one_value_a_sample = false;  ///< a batch norm that gets one value of a channel from each sample
};

/// Operators, in the order of execution; those of torch.no_grad()'s graphs stand where they run.
struct Graph {
  std::vector<std::string> inputs;  ///< names of the values that it is given
  std::vector<Node> nodes;
  std::vector<Argument> outputs;
};

/// A tensor as the archive holds it: a view of the elements of one record.
struct StoredTensor {
  std::string record;
  std::int64_t dtype = 0;  ///< torch._export.serde.schema.ScalarType
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  bool requires_grad = false;
};

/// What an archive of torch.export.save says, but for the tensors' bytes.
struct Program {
  Graph graph;
  std::vector<Input> inputs;                      ///< one for each of the graph's
  std::vector<Output> outputs;                    ///< one for each of the graph's
  std::map<std::string, StoredTensor> weights;    ///< parameters and persistent buffers by their names
  std::map<std::string, StoredTensor> constants;  ///< other tensors by their names
};

}  // namespace mn::exported
