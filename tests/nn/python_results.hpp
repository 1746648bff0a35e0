/// What Python computed with an exported model, as tests/support/export_models wrote it, and comparisons with it.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/nn/exported_module.hpp>

#include "tests/nn/exported_files.hpp"

namespace mn::test {

inline constexpr double kTolerance = 5e-5;

inline std::shared_ptr<ExportedModule> load(const std::string& name) {
  return std::make_shared<ExportedModule>(model_file(name + ".pt2"), name);
}

/// What Python computed: tensors named KIND.REST.
class Expected {
 public:
  explicit Expected(const std::string& name) {
    for (auto& [key, tensor] : from_safetensors(model_file(name + ".safetensors"), name)) {
      const std::size_t dot = key.find('.');
      tensors_[key.substr(0, dot)][key.substr(dot + 1)] = tensor;
    }
  }
  const std::map<std::string, at::Tensor>& of(const std::string& kind) { return tensors_[kind]; }
  std::vector<at::Tensor> inputs() {
    std::vector<at::Tensor> inputs;
    for (const auto& [index, tensor] : tensors_["input"]) inputs.push_back(tensor);
    return inputs;
  }

 private:
  std::map<std::string, std::map<std::string, at::Tensor>> tensors_;
};

/// Relative to the norm of the tensor: another processor adds in another order, so elements in which large terms cancel
/// differ by more than a fraction of themselves.
inline void expect_close(const at::Tensor& given, const at::Tensor& wanted, const std::string& what) {
  ASSERT_TRUE(given.defined()) << what;
  ASSERT_EQ(given.sizes(), wanted.sizes()) << what;
  EXPECT_EQ(given.scalar_type(), wanted.scalar_type()) << what;
  const auto norm = [](const at::Tensor& tensor) { return tensor.to(torch::kDouble).norm().item<double>(); };
  const double difference = norm(given.to(torch::kDouble) - wanted.to(torch::kDouble));
  EXPECT_LE(difference, kTolerance * std::max(1.0, norm(wanted))) << what;
}

/// Outputs, gradients of the sum of squares of all outputs that have one, and buffers and frozen parameters afterwards.
inline void expect_same_as_python(ExportedModule& model, const std::string& name, const std::string& file) {
  Expected expected(file);
  const std::vector<at::Tensor> outputs = model.forward_all(expected.inputs());
  at::Tensor loss = torch::zeros({});
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    const auto wanted = expected.of("output").find(std::to_string(i));
    ASSERT_EQ(outputs[i].defined(), wanted != expected.of("output").end()) << i;
    if (!outputs[i].defined()) continue;
    expect_close(outputs[i], wanted->second, name + " output " + std::to_string(i));
    if (outputs[i].requires_grad()) loss = loss + outputs[i].square().sum();
  }
  loss.backward();
  const auto parameters = model.named_parameters();
  for (const auto& [key, gradient] : expected.of("gradient")) {
    ASSERT_TRUE(parameters.contains(key)) << key;
    expect_close(parameters[key].grad(), gradient, name + " gradient " + key);
  }
  const auto buffers = model.named_buffers();
  for (const auto& item : buffers) {
    ASSERT_EQ(expected.of("buffer").count(item.key()), 1U) << item.key();
    expect_close(item.value(), expected.of("buffer").at(item.key()), name + " buffer " + item.key());
  }
  for (const auto& item : parameters) {
    const auto wanted = expected.of("buffer").find(item.key());
    if (wanted != expected.of("buffer").end()) expect_close(item.value(), wanted->second, name + " " + item.key());
  }
}

inline void expect_same_as_python(ExportedModule& model, const std::string& name) {
  expect_same_as_python(model, name, name);
}

}  // namespace mn::test
