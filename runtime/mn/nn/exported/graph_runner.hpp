/// Runs the graph of an exported program through libtorch's dispatcher, where autograd and autocast see each operator.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <ATen/core/stack.h>

#include <mn/nn/exported/call_arguments.hpp>
#include <mn/nn/exported/program.hpp>

namespace mn::exported {

/// A graph whose operators are found and whose arguments are checked. run() is thread-safe.
class GraphRunner {
 public:
  /// Throws a DataError with `source` and the node if libtorch does not know an operator or an argument.
  GraphRunner(const Graph& graph, const std::string& source);

  /// Runs the graph on one value for each input, and returns one value for each output. If an operator fails, throws an
  /// Error of one line that names the node.
  [[nodiscard]] std::vector<c10::IValue> run(std::vector<c10::IValue> inputs, c10::Device device) const;

 private:
  struct Result {
    bool is_list = false;
    std::vector<std::size_t> slots = {};  // empty: the result is not used
  };
  struct Step {
    std::string what;
    std::function<void(torch::jit::Stack&, c10::Device)> call;
    std::vector<Source> arguments = {};
    std::vector<Result> results = {};
    std::vector<std::size_t> reads = {};     // slots
    std::vector<std::size_t> finished = {};  // slots that no later step reads
    bool grad = true;
    bool autocast = true;
  };

  void add(const Node& node);
  void add_operator(const Node& node, Step step);
  void add_number_operator(const Node& node, Step step);
  void add_call(const Node& node, Step step);
  void add_control_flow(const Node& node, Step step);
  [[nodiscard]] Source source_of(const Node& node, const c10::Argument& parameter);
  [[nodiscard]] Result define(const Argument& output);
  void find_finished();
  void execute(const Step& step, Frame& frame, torch::jit::Stack& stack) const;

  std::string source_;
  Slots slots_;
  std::vector<Step> steps_;
  std::vector<Source> outputs_;
  std::vector<std::size_t> output_slots_;
};

}  // namespace mn::exported
