#include <mn/trainer/extensions/fail_on_non_number.hpp>

#include <cmath>
#include <span>
#include <vector>

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/isfinite.h>
#include <ATen/ops/where.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::extensions {
namespace {

constexpr const char* kAdvice =
    ": training has diverged; use a lower learning rate or a longer warm-up, and look for samples or initial weights "
    "that are not numbers";

}  // namespace

/// On a GPU, a tensor keeps the number of the first bad iteration, because reading a loss would wait for the GPU.
void FailOnNonNumber::after_forward(Trainer& trainer, const at::Tensor& loss) {
  if (value_ != "main/loss" || trainer.optimizer().scaler() != nullptr) return;  // scaled losses may overflow
  const std::int64_t iteration = trainer.iteration() + 1;
  const at::Tensor value = loss.detach().reshape({});
  if (value.is_cpu()) {
    const auto number = value.item<double>();
    if (std::isfinite(number)) return;
    throw DataError("the loss is " + std::to_string(number) + " in iteration " + std::to_string(iteration) + kAdvice);
  }
  if (!first_.defined()) first_ = at::full({}, 0, value.options().dtype(at::kLong));
  first_ = at::where(at::isfinite(value).logical_or(first_ != 0), first_, iteration);
}

/// Collective. Returns an end for the error text, such as ", on rank 1 in iteration 17 first", or "" if no rank has
/// noted a bad loss.
std::string FailOnNonNumber::first_text(Trainer& trainer) const {
  const std::int64_t own = first_.defined() ? first_.item<std::int64_t>() : 0;
  std::vector<std::int64_t> all(static_cast<std::size_t>(trainer.communicator().size()));
  trainer.communicator().allgather(std::span(&own, 1), std::span(all));
  std::size_t first = all.size();
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank] != 0 && (first == all.size() || all[rank] < all[first])) first = rank;
  }
  if (first == all.size()) return "";
  return ", on rank " + std::to_string(first) + " in iteration " + std::to_string(all[first]) + " first";
}

void FailOnNonNumber::run(Trainer& trainer) {
  if (std::exchange(read_, log_.count()) == log_.count()) return;
  const nlohmann::json& entry = log_.entries().back();
  const auto value = entry.find(value_);
  if (value == entry.end() || !value->is_number() || std::isfinite(value->get<double>())) return;
  throw DataError(value_ + " is " + std::to_string(value->get<double>()) + " after iteration " +
                      std::to_string(trainer.iteration()) + first_text(trainer) + kAdvice,
                  true);
}

}  // namespace mn::extensions
