#include <mn/models/models.hpp>

#include <algorithm>
#include <iterator>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::models {
namespace {

using Factory = std::shared_ptr<Classifier> (*)(std::int64_t num_classes, const ClassifierOptions& options);

/// A factory of a network without options.
template <std::shared_ptr<Classifier> (*create)(std::int64_t)>
std::shared_ptr<Classifier> plain(std::int64_t num_classes, const ClassifierOptions& /*options*/) {
  return create(num_classes);
}

struct Entry {
  const char* name;
  Factory create;
  std::int64_t min_image_size;
  std::int64_t min_image_size_alone;
  double sgd_learning_rate;
  std::int64_t image_size_step = 1;
  bool has_blocks = false;
  bool has_dropout_option = false;
};

constexpr Entry kModels[] = {
    {"alexnet", plain<create_alexnet>, 63, 63, 0.01},
    {"nin", plain<create_nin>, 39, 39, 0.01},
    {"googlenet", plain<create_googlenet>, 31, 31, 0.01},
    {"googlenetbn", plain<create_googlenetbn>, 15, 47, 0.1},
    {"resnet18", plain<create_resnet18>, 1, 33, 0.1},
    {"resnet50", plain<create_resnet50>, 1, 33, 0.1},
    {"convnext_tiny", create_convnext_tiny, 32, 32, 0.01, 1, true},
    {"convnext_small", create_convnext_small, 32, 32, 0.01, 1, true},
    {"convnext_base", create_convnext_base, 32, 32, 0.01, 1, true},
    {"vit_ti_16", create_vit_ti_16, 16, 16, 0.01, 16, true, true},
    {"vit_s_16", create_vit_s_16, 16, 16, 0.01, 16, true, true},
    {"vit_b_16", create_vit_b_16, 16, 16, 0.01, 16, true, true},
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

std::shared_ptr<Classifier> create_model(const std::string& name, std::int64_t num_classes,
                                         const ClassifierOptions& options) {
  return find(name).create(num_classes, options);
}

std::int64_t min_image_size(const std::string& name) { return find(name).min_image_size; }
std::int64_t min_image_size_alone(const std::string& name) { return find(name).min_image_size_alone; }
std::int64_t image_size_step(const std::string& name) { return find(name).image_size_step; }
bool has_blocks(const std::string& name) { return find(name).has_blocks; }
bool has_dropout_option(const std::string& name) { return find(name).has_dropout_option; }
double sgd_learning_rate(const std::string& name) { return find(name).sgd_learning_rate; }

}  // namespace mn::models
