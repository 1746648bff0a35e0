#include "exported/data.hpp"

#include <ATen/core/Tensor.h>

#include <mn/app/batches.hpp>
#include <mn/core/error.hpp>
#include <mn/core/text.hpp>
#include <mn/image/augment_options.hpp>
#include <mn/loader/image_transform.hpp>

#include "exported/fields.hpp"
#include "exported/loss.hpp"

namespace mn::jobs {
namespace {

std::string shape_text(const Shape& shape) {
  if (shape.empty()) return "a single value";
  return join(shape, " x ", [](std::int64_t size) { return size < 0 ? "any" : std::to_string(size); });
}

Transform image_input(const std::string& option, std::size_t position, const ExportedInput& input) {
  const auto& sizes = input.sizes;
  const bool fits =
      sizes.size() == 4 && sizes[1] == 3 && sizes[2] > 0 && sizes[2] == sizes[3] && c10::isFloatingType(input.dtype);
  if (!fits) {
    throw DataError("--" + option + " holds images, but --model does not take batches of 3 x N x N floats", true);
  }
  if (position != 0) throw DataError("--" + option + ": images must be the samples' first field", true);
  const int size = static_cast<int>(sizes[2]);
  const auto mode = option == "train" ? data::CropMode::kRandomResized : data::CropMode::kCenter;
  return image_transform({.mode = mode, .size = size, .resize = data::usual_resize(size)}, {},
                         data::PixelLayout::kNchw);
}

/// `wanted` is the shape that one sample must have for this input.
Transform array_input(const std::string& option, const FieldSpec& field, std::size_t position,
                      const ExportedInput& input, const Shape& wanted) {
  auto shape = reshaped(field.shape, wanted);
  if (!shape) {
    throw DataError("--" + option + ": a sample's " + field.name + " is " + shape_text(field.shape) +
                        ", but --model takes " + shape_text(wanted) + " for " + input.name,
                    true);
  }
  shape->insert(shape->begin(), -1);  // this dimension counts the samples
  const bool is_unit = field.dtype == DType::kUInt8 && field.num_classes == 0 && c10::isFloatingType(input.dtype);
  return [position, is_unit, dtype = input.dtype, shape = *shape](const RawBatch& batch, std::vector<SampleError>&) {
    std::vector<std::int64_t> sizes = shape;
    sizes.front() = batch.samples.size();
    const at::Tensor values = default_field(batch, position).values.to(dtype).view(sizes);
    return is_unit ? values / 255 : values;
  };
}

/// Makes all fields of a minibatch: first the model's inputs in their order, then the labels.
Transform all_inputs(const std::string& option, const ExportedOptions& options, const SampleSpec& spec,
                     const Fields& fields, const std::vector<ExportedInput>& inputs) {
  std::vector<Transform> transforms;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    const std::size_t position = fields.inputs[i];
    const FieldSpec& field = spec[position];
    transforms.push_back(field.kind == FieldKind::kEncoded
                             ? image_input(option, position, inputs[i])
                             : array_input(option, field, position, inputs[i], wanted_shape(inputs, i, options)));
  }
  return [transforms, inputs, label = fields.label](const RawBatch& batch, std::vector<SampleError>& damaged) {
    std::vector<BatchField> all;
    for (std::size_t i = 0; i < transforms.size(); ++i) {
      all.push_back({.name = inputs[i].name, .values = transforms[i](batch, damaged)});
    }
    if (label) all.push_back(default_field(batch, *label));
    return Transformed(std::move(all));
  };
}

/// Throws UsageError if a minibatch can have a number of samples for which the model was not exported.
void check_samples(const std::string& option, const ExportedOptions& options, const std::vector<ExportedInput>& inputs,
                   const SubDataset& part) {
  for (const ExportedInput& input : inputs) {
    if (input.sizes.empty()) continue;
    const std::int64_t fixed = input.sizes[0], most = input.most[0];
    const std::string what = "input " + input.name + " of --model was exported for ";
    const std::string why = ": export it with dynamic_shapes, in which the first size varies";
    if (fixed < 0 && most < options.batchsize) {
      throw UsageError("--batchsize " + std::to_string(options.batchsize) + ": " + what + "at most " +
                       std::to_string(most) + " samples" + why);
    }
    if (fixed < 0) continue;
    if (fixed == options.batchsize && part.global_size() % (fixed * part.ranks()) == 0) continue;
    throw UsageError("--" + option + ": " + what + std::to_string(fixed) + " samples, but " +
                     (fixed == options.batchsize ? "the last minibatch has fewer"
                                                 : "--batchsize is " + std::to_string(options.batchsize)) +
                     why);
  }
}

/// The smallest number of samples that a rank can have in a step. The last two steps of an epoch divide the remaining
/// samples evenly, so they may be smaller than all other steps.
std::int64_t fewest_samples(const SubDataset& part, std::int64_t batchsize) {
  const std::int64_t step = batchsize * part.ranks(), all = part.global_size(), rest = all % step;
  if (all <= step) return all / part.ranks();
  return rest == 0 ? batchsize : (step + rest) / 2 / part.ranks();
}

void check_batch_norms(const ExportedOptions& options, const ExportedModule& model, const SubDataset& part) {
  const std::int64_t fewest = fewest_samples(part, options.batchsize);
  if (fewest >= model.fewest_samples()) return;
  throw UsageError("--train: with --batchsize " + std::to_string(options.batchsize) + " on " +
                   std::to_string(part.ranks()) + " ranks, some minibatches of the " +
                   std::to_string(part.global_size()) + " samples have " + std::to_string(fewest) +
                   " on a rank, but a batch norm of --model gets one value of a channel from each sample and can't " +
                   "train on less than " + std::to_string(model.fewest_samples()) + ": give another --batchsize");
}

void check_targets(const ExportedOptions& options, const SampleSpec& spec, const Fields& fields,
                   const ExportedModule& model) {
  const auto& sizes = model.outputs()[find_output(model, options)].sizes;
  if (sizes && options.loss == "output") return check_own_loss(*sizes);
  const FieldSpec& first = spec[fields.inputs.front()];
  const bool is_image = first.kind == FieldKind::kEncoded;
  if (!sizes || options.loss == "output" || (is_image && !fields.label)) return;
  Shape input = first.shape;
  if (!is_image && options.target == "input") {
    input = reshaped(first.shape, wanted_shape(model.inputs(), 0, options)).value_or(first.shape);
  }
  const std::int64_t classes = (fields.label ? spec[*fields.label] : first).num_classes;
  check_shapes(options, *sizes, target_shape(spec, fields, options, input), classes);
}

}  // namespace

std::size_t find_output(const ExportedModule& model, const ExportedOptions& options) {
  const auto& outputs = model.outputs();
  const bool has_usual = options.output.empty() && options.loss == "output";
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    if (outputs[i].name == options.output || (options.output.empty() && outputs.size() == 1)) return i;
    if (has_usual && outputs[i].name == "loss") return i;
  }
  const std::string names = join(outputs, ", ", &ExportedOutput::name);
  if (!options.output.empty()) throw UsageError("--output " + options.output + ": --model returns " + names);
  throw UsageError("--output is missing: --model returns " + names + "; name the output for the loss");
}

std::shared_ptr<DataLoader> open_samples(const std::string& option, const std::string& names,
                                         const ExportedOptions& options, const ExportedModule& model,
                                         const std::shared_ptr<Communicator>& comm) {
  const bool is_training = option == "train";
  const auto part = app::scatter_samples("--" + option, app::open_samples(names), is_training, options, comm);
  const SampleSpec& spec = part->spec();
  const Fields fields = match_fields(option, spec, model.inputs(), options);
  const Transform transform = all_inputs(option, options, spec, fields, model.inputs());
  check_samples(option, options, model.inputs(), *part);
  if (is_training) check_batch_norms(options, model, *part);
  check_targets(options, spec, fields, model);
  return app::batches_of(part, options, *comm,
                         {.workers = app::loader_workers(options.loaderjob), .transform = transform});
}

}  // namespace mn::jobs
