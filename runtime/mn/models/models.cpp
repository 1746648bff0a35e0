#include <mn/models/models.hpp>

#include <algorithm>
#include <iterator>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::models {
namespace {

using Factory = std::shared_ptr<Classifier> (*)(std::int64_t num_classes);

struct Entry {
  const char* name;
  Factory create;
  std::int64_t min_image_size;
  std::int64_t min_image_size_alone;
  double sgd_learning_rate;
};

constexpr Entry kModels[] = {
    {"alexnet", create_alexnet, 63, 63, 0.01},         //
    {"nin", create_nin, 39, 39, 0.01},                 //
    {"googlenet", create_googlenet, 31, 31, 0.01},     //
    {"googlenetbn", create_googlenetbn, 15, 47, 0.1},  //
    {"resnet18", create_resnet18, 1, 33, 0.1},         //
    {"resnet50", create_resnet50, 1, 33, 0.1},
};

const Entry& find(const std::string& name) {
  const auto found = std::ranges::find(kModels, name, &Entry::name);
  if (found != std::end(kModels)) return *found;
  throw UsageError("unknown network \"" + name + "\": use one of " + join(kModels, ", ", &Entry::name));
}

}  // namespace

std::vector<std::string> model_names() {
  std::vector<std::string> names;
  for (const Entry& entry : kModels) names.emplace_back(entry.name);
  return names;
}

std::shared_ptr<Classifier> create_model(const std::string& name, std::int64_t num_classes) {
  return find(name).create(num_classes);
}

std::int64_t min_image_size(const std::string& name) { return find(name).min_image_size; }
std::int64_t min_image_size_alone(const std::string& name) { return find(name).min_image_size_alone; }
double sgd_learning_rate(const std::string& name) { return find(name).sgd_learning_rate; }

}  // namespace mn::models
