#include <mn/models/lora.hpp>

#include <algorithm>

#include <torch/nn/module.h>

#include <mn/core/error.hpp>
#include <mn/core/name_pattern.hpp>
#include <mn/core/text.hpp>
#include <mn/models/adaptable_linear.hpp>

namespace mn::models {
namespace {

namespace nn = torch::nn;

template <class Call>
void for_each_layer(const nn::Module& model, const Call& call) {
  for (const auto& item : model.named_modules()) {
    if (auto* layer = dynamic_cast<AdaptableLinear*>(item.value().get())) call(item.key(), *layer);
  }
}

/// The descendant of `root` called `name`, which is made where it is missing.
std::shared_ptr<nn::Module> module_named(std::shared_ptr<nn::Module> root, const std::string& name) {
  for (const std::string_view part : split(name, '.')) {
    const auto children = root->named_children();
    const auto* found = children.find(std::string(part));
    root = found != nullptr ? *found : root->register_module(std::string(part), std::make_shared<nn::Module>());
  }
  return root;
}

}  // namespace

bool matches_layer(const std::string& pattern, std::string_view name) {
  return matches_name(pattern, name) || matches_name("*." + pattern, name);
}

std::vector<std::string> add_lora(nn::Module& model, const LoraOptions& options) {
  for (torch::Tensor& parameter : model.parameters()) parameter.set_requires_grad(false);
  std::vector<std::string> names, others;
  for_each_layer(model, [&](const std::string& name, AdaptableLinear& layer) {
    const auto is_chosen = [&name](const std::string& pattern) { return matches_layer(pattern, name); };
    if (std::ranges::none_of(options.layers, is_chosen)) return others.push_back(name);
    layer.add_lora(options.rank, options.scale, options.dropout);
    names.push_back(name);
  });
  if (names.empty()) {
    throw ArgumentError("no linear layer of the network matches \"" + join(options.layers, ",") + "\"" +
                        (others.empty() ? "" : "; one is called " + others.front()));
  }
  return names;
}

void merge_lora(nn::Module& model) {
  for_each_layer(model, [](const std::string&, AdaptableLinear& layer) { layer.merge_lora(); });
}

std::shared_ptr<nn::Module> lora_of(const nn::Module& model) {
  const auto adapters = std::make_shared<nn::Module>();
  for_each_layer(model, [&](const std::string& name, AdaptableLinear& layer) {
    for (const auto& adapter : layer.named_children())
      module_named(adapters, name)->register_module(adapter.key(), adapter.value());
  });
  return adapters;
}

}  // namespace mn::models
