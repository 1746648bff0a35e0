#include "exported/data.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>

#include <mn/app/batches.hpp>
#include <mn/core/error.hpp>
#include <mn/image/augment_options.hpp>
#include <mn/loader/image_transform.hpp>

namespace mn::jobs {
namespace {

/// The usual validation: the short side becomes 256 for a crop of 224.
constexpr double kResizeOverCrop = 256.0 / 224;

std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : " x ") + (size < 0 ? "any" : std::to_string(size));
  return text.empty() ? "a single value" : text;
}

/// The shape that the model wants of one sample. With --target next a sample has one element more, the last target.
std::vector<std::int64_t> wanted_shape(const ExportedInput& input, const ExportedOptions& options) {
  std::vector<std::int64_t> shape(input.sizes.begin() + (input.sizes.empty() ? 0 : 1), input.sizes.end());
  if (options.target == "next" && !shape.empty() && shape.back() >= 0) ++shape.back();
  return shape;
}

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// Whether arrays of `shape` can be given the wanted shape, in which -1 is any size.
bool can_become(const std::vector<std::int64_t>& shape, const std::vector<std::int64_t>& wanted) {
  if (std::ranges::find(wanted, -1) == wanted.end()) return elements(shape) == elements(wanted);
  return std::ranges::equal(shape, wanted,
                            [](std::int64_t size, std::int64_t want) { return want < 0 || size == want; });
}

/// Throws unless the first field is an array of one shape or an image, and the second one, if it is wanted, has a
/// shape.
void check_fields(const std::string& option, const SampleSpec& spec, const ExportedOptions& options) {
  if (spec[0].kind == FieldKind::kVariable) {
    throw DataError("--" + option + ": " + spec[0].name +
                        " of each sample has a length of its own, but --model takes " + "samples of one shape",
                    true);
  }
  if (options.target != "label" || (spec.fields.size() > 1 && spec[1].kind == FieldKind::kFixed)) return;
  throw DataError("--" + option + ": the samples have no second field of one shape, which --target label takes", true);
}

/// Samples of one shape as the model's input.
Transform array_transform(const std::string& option, const FieldSpec& data, const ExportedInput& input,
                          const std::vector<std::int64_t>& wanted) {
  if (!can_become(data.shape, wanted)) {
    throw DataError("--" + option + ": a sample is " + shape_text(data.shape) + ", but --model takes " +
                        shape_text(wanted) + " for one",
                    true);
  }
  std::vector<std::int64_t> shape = std::ranges::find(wanted, -1) == wanted.end() ? wanted : data.shape;
  const bool keeps_bytes = c10::isIntegralType(input.dtype, true) && data.dtype == DType::kUInt8;
  shape.insert(shape.begin(), -1);  // samples
  return [dtype = input.dtype, keeps_bytes, shape](const RawBatch& batch, std::vector<SampleError>& damaged) {
    std::vector<std::int64_t> sizes = shape;
    sizes.front() = batch.samples.size();
    if (!keeps_bytes) return default_transform(batch, damaged).to(dtype).view(sizes);
    const RawColumn& column = batch.samples.columns[0];
    const at::Tensor bytes = at::empty(sizes, at::kByte);
    if (bytes.numel() > 0) std::memcpy(bytes.data_ptr(), column.bytes.data(), column.bytes.size());
    return bytes.to(dtype);
  };
}

Transform encoded_transform(const std::string& option, const ExportedInput& input, bool is_training) {
  const auto& sizes = input.sizes;
  const bool fits =
      sizes.size() == 4 && sizes[1] == 3 && sizes[2] > 0 && sizes[2] == sizes[3] && c10::isFloatingType(input.dtype);
  if (!fits) {
    throw DataError("--" + option + " holds images, but --model does not take batches of 3 x N x N floats", true);
  }
  const int size = static_cast<int>(sizes[2]);
  const auto mode = is_training ? data::CropMode::kRandomResized : data::CropMode::kCenter;
  const int resize = static_cast<int>(std::lround(size * kResizeOverCrop));
  return image_transform({.mode = mode, .size = size, .resize = resize}, {}, data::PixelLayout::kNchw);
}

}  // namespace

std::shared_ptr<DataLoader> open_samples(const std::string& option, const ExportedOptions& options,
                                         const ExportedInput& input, const std::shared_ptr<Communicator>& comm) {
  const bool is_training = option == "train";
  const std::string& path = is_training ? options.train : options.validation;
  const auto part = app::scatter_samples("--" + option, open_dataset(path), is_training, options, comm);
  const SampleSpec& spec = part->spec();
  check_fields(option, spec, options);
  const Transform transform = spec[0].kind == FieldKind::kEncoded
                                  ? encoded_transform(option, input, is_training)
                                  : array_transform(option, spec[0], input, wanted_shape(input, options));
  return app::batches_of(part, options, *comm,
                         {.workers = app::loader_workers(options.loaderjob), .transform = transform});
}

}  // namespace mn::jobs
