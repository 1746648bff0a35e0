#include "exported/loss.hpp"

#include <algorithm>
#include <functional>
#include <numeric>
#include <string>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn::jobs {
namespace {

namespace F = torch::nn::functional;

constexpr std::int64_t kIgnored = -100;  // by default, cross_entropy ignores targets of this value

/// Which dimension of an output has a score for each class.
enum class Classes {
  kSecond,  ///< [N, C, d…]
  kLast,    ///< [N, d…, C]
  kRows,    ///< [N·d…, C]
};

std::string text_of(const Shape& shape) {
  return "[" + join(shape, ", ", [](std::int64_t size) { return size < 0 ? "any" : std::to_string(size); }) + "]";
}

Shape without(Shape shape, std::size_t dimension) {
  shape.erase(shape.begin() + static_cast<std::ptrdiff_t>(dimension));
  return shape;
}

/// The first size, the number of samples, stays even if it is 1.
Shape squeezed(const Shape& shape) {
  Shape result;
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i == 0 || shape[i] != 1) result.push_back(shape[i]);
  }
  return result;
}

std::int64_t count_of(const Shape& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

/// The shape of a mask without its dimension for one channel; any other `target` unchanged.
Shape without_channel(const Shape& output, const Shape& target) {
  return target.size() > 1 && target.size() == output.size() && target[1] == 1 ? without(target, 1) : target;
}

/// All ways to compare an output with a target of these shapes. An unknown size matches any size.
std::vector<Classes> ways_to_compare(const ExportedOptions& options, const Shape& output, const Shape& target) {
  std::vector<Classes> ways;
  if (output.size() < 2) return ways;
  if (options.classes != "last" && matches(without(output, 1), target)) ways.push_back(Classes::kSecond);
  const bool has_more = output.size() > 2 && options.classes != "second";
  if (has_more && matches(without(output, output.size() - 1), target)) ways.push_back(Classes::kLast);
  const bool is_list = output.size() == 2 && target.size() > 1;
  const bool is_sure = is_list && is_known(output) && is_known(target);
  if (is_list && (!is_sure || output[0] == count_of(target))) ways.push_back(Classes::kRows);
  if (options.classes == "last" && output.size() == 2 && matches(without(output, 1), target)) {
    ways.push_back(Classes::kSecond);  // here the second dimension is also the last
  }
  return ways;
}

std::string mismatch(const ExportedOptions& options, const Shape& output, const Shape& target) {
  std::string text = "--loss " + options.loss + ": the model's output " + text_of(output) +
                     " does not match a target of " + text_of(target);
  if (options.loss == "cross_entropy") text += ": classes are its second dimension or its last one";
  return text;
}

std::string ambiguity(const Shape& output, const Shape& target) {
  return "--loss cross_entropy: the model's output " + text_of(output) + " matches a target of " + text_of(target) +
         " in two ways: give --classes second, as in torch's cross_entropy, or --classes last, as in language models";
}

std::string not_one_number(const Shape& output) {
  return "--loss output: the model's output " + text_of(output) +
         " is not one number, such as a mean over the minibatch: --output names another one";
}

/// The number of labels that cross_entropy counts. Throws a DataError that names the first label that is no class.
double count_labels(const at::Tensor& target, const at::Tensor& output, std::int64_t classes) {
  const at::Tensor counts = target.ne(kIgnored);
  const at::Tensor is_wrong = counts.logical_and(target.lt(0).logical_or(target.ge(classes)));
  const at::Tensor numbers = torch::stack({counts.sum(), is_wrong.sum()}).cpu();  // one wait for both numbers
  if (numbers[1].item<std::int64_t>() == 0) return numbers[0].item<double>();
  throw DataError("--loss cross_entropy: a label is " +
                  std::to_string(target.masked_select(is_wrong)[0].item<std::int64_t>()) + ", but the model's output " +
                  text_of(output.sizes().vec()) + " has classes 0 to " + std::to_string(classes - 1) + ", and " +
                  std::to_string(kIgnored) + " is ignored");
}

Loss cross_entropy(Classes classes, const at::Tensor& output, const at::Tensor& given, Summary& report) {
  const bool is_second = classes == Classes::kSecond;
  const at::Tensor scores = is_second ? output : output.flatten(0, -2);  // (N, C, d…) or (targets, C)
  const at::Tensor target = is_second ? given : given.flatten();
  const double count = count_labels(target, output, scores.size(1));
  if (count == 0) return {scores.sum() * 0, 0};  // the mean over no targets would be NaN
  report.add("accuracy", scores.argmax(1).eq(target).sum().item<double>() / count, count);
  return {F::cross_entropy(scores, target), count};
}

}  // namespace

bool is_known(const Shape& shape) { return std::ranges::find(shape, -1) == shape.end(); }

bool matches(const Shape& a, const Shape& b) {
  return std::ranges::equal(a, b, [](std::int64_t x, std::int64_t y) { return x == y || x < 0 || y < 0; });
}

void check_own_loss(const Shape& output) {
  if (std::ranges::any_of(output, [](std::int64_t size) { return size != 1 && size >= 0; })) {
    throw UsageError(not_one_number(output));
  }
}

Loss own_loss(const at::Tensor& output) {
  if (output.numel() != 1) throw ArgumentError(not_one_number(output.sizes().vec()));
  return output.to(torch::kFloat).reshape({});
}

void check_shapes(const ExportedOptions& options, const Shape& output, const Shape& target, std::int64_t labels) {
  if (options.loss == "mse") {
    const bool is_sure = output.empty() || is_known(without(output, 0));
    if (is_sure && !matches(squeezed(output), squeezed(target))) throw UsageError(mismatch(options, output, target));
    return;
  }
  const Shape plain = without_channel(output, target);
  const auto ways = ways_to_compare(options, output, plain);
  if (ways.empty()) throw UsageError(mismatch(options, output, target));
  const bool is_sure = output.size() > 2 && is_known(without(output, 0)) && is_known(without(plain, 0));
  if (ways.size() > 1 && is_sure) throw UsageError(ambiguity(output, target));
  const std::int64_t classes = ways.front() == Classes::kSecond ? output[1] : output.back();
  if (ways.size() > 1 || classes < 0 || labels <= classes) return;
  throw UsageError("--loss cross_entropy: the labels have " + std::to_string(labels) +
                   " classes, but the model's output " + text_of(output) + " has " + std::to_string(classes));
}

Loss compare(const ExportedOptions& options, const at::Tensor& output, const at::Tensor& target, Summary& report) {
  const Shape sizes = output.sizes().vec(), wanted = target.sizes().vec();
  if (output.is_complex()) throw ArgumentError("--loss " + options.loss + ": the model's output is complex");
  if (options.loss == "mse") {
    if (!matches(squeezed(sizes), squeezed(wanted))) throw ArgumentError(mismatch(options, sizes, wanted));
    return F::mse_loss(output.to(torch::kFloat), target.to(torch::kFloat).reshape(output.sizes()));
  }
  const Shape plain = without_channel(sizes, wanted);
  const auto ways = ways_to_compare(options, sizes, plain);
  if (ways.empty()) throw ArgumentError(mismatch(options, sizes, wanted));
  if (ways.size() > 1) throw ArgumentError(ambiguity(sizes, wanted));
  return cross_entropy(ways.front(), output.to(torch::kFloat), target.to(torch::kLong).view(plain), report);
}

}  // namespace mn::jobs
