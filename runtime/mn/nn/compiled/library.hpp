/// A shared library that AOTInductor has made of a graph.
#pragma once

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <ATen/core/Tensor.h>

namespace torch::inductor {
class AOTIModelContainerRunner;
}

namespace mn::compiled {

/// The code of a library. It is loaded for a device when it first runs there. Thread-safe.
class Library {
 public:
  /// `code`: the bytes of the shared object; `operators`: the JSON document that AOTInductor writes beside it if it
  /// calls operators by name, or empty; `name` stands for the library in messages.
  Library(std::string code, std::string operators, std::string name);
  ~Library();
  Library(const Library&) = delete;
  Library& operator=(const Library&) = delete;

  /// Runs the graph. Autograd does not see the call, but sharded parameters among `inputs` are gathered first
  /// (parameter_uses.hpp). The inputs' dtypes, shapes and strides must be those of the graph. Throws Error.
  [[nodiscard]] std::vector<at::Tensor> run(const std::vector<at::Tensor>& inputs) const;

 private:
  friend std::vector<at::Tensor> run_library(at::TensorList inputs, std::int64_t library);
  using Runner = torch::inductor::AOTIModelContainerRunner;
  [[nodiscard]] Runner& runner_for(c10::Device device) const;
  [[nodiscard]] std::unique_ptr<Runner> load(c10::Device device) const;

  std::string code_, operators_, name_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<c10::Device, std::unique_ptr<Runner>> runners_;
};

}  // namespace mn::compiled
