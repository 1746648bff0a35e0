/// An exported program: a graph of operators, and the places of its tensors in the archive.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <mn/nn/exported/argument.hpp>

namespace at {
class Tensor;
}

namespace mn::exported {

class Archive;

/// Bounds of the size of one dimension of an input; equal if torch.export has fixed the size.
struct Extent {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int64_t>::max();
};

/// An input of the graph: a value that no operator computes, and where it comes from.
struct Input {
  enum class Kind {
    kUser,       ///< an argument of forward()
    kParameter,  ///< `target` names it
    kBuffer,     ///< `target` names it
    kConstant,   ///< a tensor that `target` names
    kLiteral,    ///< an argument of forward() that is not a tensor; its value at the export is `literal`
  };
  Kind kind = Kind::kUser;
  std::string value;  ///< name in the graph
  std::string target = {};
  bool persistent = true;  ///< for a buffer: true if it belongs to the model's state
  Argument literal = {};
  std::int64_t dtype = 0;            ///< dtype of a user's input, as torch._export.serde.schema.ScalarType
  std::vector<Extent> extents = {};  ///< shape of a user's input
};

/// True if the input belongs to the model's state, as in Python's state_dict().
[[nodiscard]] inline bool is_state(const Input& input) {
  return input.kind == Input::Kind::kParameter || (input.kind == Input::Kind::kBuffer && input.persistent);
}

struct Output {
  std::string name = {};  ///< path of a tensor that the model returns, such as "logits", "0" or "hidden.1"
  std::optional<std::vector<std::int64_t>> sizes = {};  ///< shape, if the file has it; −1: the size varies
  std::string buffer = {};  ///< not empty: forward() copies the value to this buffer and does not return it
};

struct NamedArgument {
  std::string name;
  Argument value;
};

struct Graph;

/// Computes the results of a node from the values of its first argument, a list of tensors.
using NodeCall = std::function<std::vector<at::Tensor>(std::vector<at::Tensor> inputs)>;

struct Node {
  std::string target;  ///< the operator, such as "torch.ops.aten.add.Tensor"
  std::string what;    ///< name of the node in messages
  std::vector<NamedArgument> inputs = {};
  std::vector<Argument> outputs = {};
  bool grad = true;                     ///< false: within torch.no_grad()
  bool autocast = true;                 ///< false: within torch.autocast(enabled=False)
  std::vector<Graph> graphs;            ///< inner graphs of the operator (torch.cond, …), which are not in `inputs`
  NodeCall call = {};                   ///< not empty: computes the node in place of an operator
  bool has_one_value_a_sample = false;  ///< a batch norm that gets one value of a channel from each sample
};

/// The operators of a graph, in the order of execution. The operators of torch.no_grad()'s inner graphs are inlined.
struct Graph {
  std::vector<std::string> inputs;  ///< names of the input values
  std::vector<Node> nodes;
  std::vector<Argument> outputs;
};

/// A tensor in the archive: a view of the elements of one record.
struct StoredTensor {
  std::string record;
  std::int64_t dtype = 0;  ///< number of the dtype in torch._export.serde.schema.ScalarType
  std::vector<std::int64_t> sizes;
  std::vector<std::int64_t> strides;
  std::int64_t offset = 0;
  bool requires_grad = false;
  auto operator<=>(const StoredTensor&) const = default;
};

/// The content of an archive of torch.export.save, without the bytes of tensors.
struct Program {
  Graph graph;
  std::vector<Input> inputs;                      ///< one for each input of the graph
  std::vector<Output> outputs;                    ///< one for each output of the graph
  std::map<std::string, StoredTensor> weights;    ///< parameters and persistent buffers by name
  std::map<std::string, StoredTensor> constants;  ///< all remaining tensors by name
};

/// The program to parse: the archive's own, or that for evaluation mode in a package of mn-compile.
enum class Part { kModel, kEvaluation };

/// Parses a program of an archive; never reads pickled records. Throws a DataError of one line that begins with the
/// archive's source and names the damaged or unknown part.
[[nodiscard]] Program parse_program(const Archive& archive, Part part = Part::kModel);

/// Null if the node does not have an argument of this name.
[[nodiscard]] const Argument* find_input(const Node& node, const std::string& name);

}  // namespace mn::exported
