#include "exported/fields.hpp"

#include <algorithm>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::jobs {
namespace {

template <class Named>
std::string names_of(const std::vector<Named>& all) {
  return join(all, ", ", &Named::name);
}

std::optional<std::size_t> find_field(const SampleSpec& spec, const std::string& name) {
  const auto found = std::ranges::find(spec.fields, name, &FieldSpec::name);
  if (found == spec.fields.end()) return std::nullopt;
  return static_cast<std::size_t>(found - spec.fields.begin());
}

std::size_t require_field(const std::string& option, const SampleSpec& spec, const std::string& name,
                          const std::string& wanted_by) {
  if (const auto found = find_field(spec, name)) return *found;
  throw DataError("--" + option + ": the samples have no field " + name + ", which " + wanted_by + " takes, but " +
                      names_of(spec.fields),
                  true);
}

/// The name of the field that an --input gives to the model's input `input`; empty if none does.
std::string field_by_option(const ExportedOptions& options, const std::string& input) {
  for (const std::string& each : options.inputs) {
    const std::size_t sign = each.find('=');
    if (each.substr(0, sign) == input) return each.substr(sign + 1);
  }
  return "";
}

void check_input_options(const std::vector<ExportedInput>& inputs, const ExportedOptions& options) {
  for (const std::string& each : options.inputs) {
    const std::string name = each.substr(0, each.find('='));
    if (std::ranges::find(inputs, name, &ExportedInput::name) != inputs.end()) continue;
    throw UsageError("--input " + each + ": --model has no input " + name + ", but " + names_of(inputs));
  }
}

std::size_t input_field(const std::string& option, const SampleSpec& spec, const ExportedInput& input, bool is_only,
                        const ExportedOptions& options) {
  const std::string field = field_by_option(options, input.name);
  if (!field.empty()) return require_field(option, spec, field, "--input " + input.name + "=" + field);
  if (const auto found = find_field(spec, input.name)) return *found;
  if (is_only) return 0;
  throw DataError("--" + option + ": the samples have no field for the input " + input.name + " of --model, but " +
                      names_of(spec.fields) + ": give --input " + input.name + "=FIELD",
                  true);
}

std::size_t label_field(const std::string& option, const SampleSpec& spec, const Fields& fields,
                        const ExportedOptions& options) {
  if (!options.label.empty()) return require_field(option, spec, options.label, "--label " + options.label);
  std::vector<std::size_t> free;
  for (std::size_t i = 0; i < spec.fields.size(); ++i) {
    if (std::ranges::find(fields.inputs, i) == fields.inputs.end()) free.push_back(i);
  }
  if (free.size() == 1) return free.front();
  if (std::ranges::find(free, 1U) != free.end()) return 1;
  const std::string what = free.empty() ? "no field is left for the labels" : "several fields could be the labels";
  throw DataError("--" + option + ": " + what + " among " + names_of(spec.fields) + ": give --label FIELD", true);
}

/// The running products of the sizes of `shape`, from 1 on, without sizes of 1. For example, (2, 1, 3) gives 1, 2, 6.
std::vector<std::int64_t> counts_of(const Shape& shape) {
  std::vector<std::int64_t> counts = {1};
  for (const std::int64_t size : shape) {
    if (size != 1) counts.push_back(counts.back() * size);
  }
  return counts;
}

bool has_all(const std::vector<std::int64_t>& counts, const std::vector<std::int64_t>& some) {
  return std::ranges::all_of(some, [&](std::int64_t n) { return std::ranges::find(counts, n) != counts.end(); });
}

}  // namespace

Fields match_fields(const std::string& option, const SampleSpec& spec, const std::vector<ExportedInput>& inputs,
                    const ExportedOptions& options) {
  check_input_options(inputs, options);
  Fields fields;
  for (const ExportedInput& input : inputs) {
    fields.inputs.push_back(input_field(option, spec, input, inputs.size() == 1, options));
    const FieldSpec& field = spec[fields.inputs.back()];
    if (field.kind != FieldKind::kVariable) continue;
    throw DataError("--" + option + ": " + field.name +
                        " has another length in each sample, but --model takes samples of one shape",
                    true);
  }
  if (!options.compares_with("label")) return fields;
  fields.label = label_field(option, spec, fields, options);
  const FieldSpec& label = spec[*fields.label];
  if (label.kind != FieldKind::kFixed) {
    throw DataError("--" + option + ": the labels, " + label.name + ", do not have the same shape in all samples",
                    true);
  }
  const bool is_real = label.dtype == DType::kFloat16 || label.dtype == DType::kBFloat16 ||
                       label.dtype == DType::kFloat32 || label.dtype == DType::kFloat64;
  if (options.loss == "cross_entropy" && is_real) {
    throw DataError("--" + option + ": the labels, " + label.name + ", are " + std::string(name_of(label.dtype)) +
                        ", but --loss cross_entropy takes whole numbers",
                    true);
  }
  return fields;
}

Shape wanted_shape(const std::vector<ExportedInput>& inputs, std::size_t i, const ExportedOptions& options) {
  const std::vector<std::int64_t>& sizes = inputs[i].sizes;
  Shape shape(sizes.begin() + (sizes.empty() ? 0 : 1), sizes.end());
  if (i == 0 && options.compares_with("next") && !shape.empty() && shape.back() >= 0) ++shape.back();
  return shape;
}

Shape target_shape(const SampleSpec& spec, const Fields& fields, const ExportedOptions& options, const Shape& input) {
  Shape shape = fields.label ? spec[*fields.label].shape : input;
  if (options.compares_with("next") && !shape.empty() && shape.back() > 0) --shape.back();
  shape.insert(shape.begin(), -1);
  return shape;
}

std::optional<Shape> reshaped(const Shape& shape, const Shape& wanted) {
  if (!is_known(wanted)) return matches(shape, wanted) ? std::optional(shape) : std::nullopt;
  const auto counts = counts_of(shape), wanted_counts = counts_of(wanted);
  if (counts.back() != wanted_counts.back()) return std::nullopt;
  const bool fits = has_all(counts, wanted_counts) || has_all(wanted_counts, counts);
  return fits ? std::optional(wanted) : std::nullopt;
}

}  // namespace mn::jobs
