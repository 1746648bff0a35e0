#include "imagenet/compilation.hpp"

#include <map>

#include <mn/core/json.hpp>

namespace mn::jobs {
namespace {

/// --sizes of mn-compile's network "resnet", without the number of classes.
const std::map<std::string, nlohmann::json>& resnets() {
  static const std::map<std::string, nlohmann::json> all = {
      {"resnet18", {{"convolutions", 2}, {"blocks", {2, 2, 2, 2}}}},
      {"resnet50", {{"convolutions", 3}, {"blocks", {3, 4, 6, 3}}}},
  };
  return all;
}

}  // namespace

std::vector<std::string> compiled_archs() {
  std::vector<std::string> names;
  for (const auto& [name, sizes] : resnets()) names.push_back(name);
  return names;
}

app::CompiledForward compile_classifier(const torch::nn::Module& model, const ImagenetOptions& given,
                                        std::int64_t num_classes, const std::shared_ptr<Communicator>& comm) {
  if (given.compile.empty()) return {};
  app::NetworkSizes network{"resnet", resnets().at(given.arch)};
  network.sizes.update({{"classes", num_classes}, {"image_size", given.image_size}, {"batch", given.batchsize}});
  return app::compile_network(given.compile, given, network, model, comm);
}

}  // namespace mn::jobs
