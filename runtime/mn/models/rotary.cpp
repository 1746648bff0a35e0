#include <mn/models/rotary.hpp>

#include <numbers>

#include <torch/torch.h>

namespace mn::models {
namespace {

/// The frequencies of one head, (width / 2), computed on the device, so that a CUDA graph can hold the computation.
torch::Tensor frequencies(std::int64_t width, const RotaryOptions& options, at::Device device) {
  const auto exponents = torch::arange(0, width, 2, torch::dtype(torch::kFloat).device(device)) / width;
  const torch::Tensor plain = torch::pow(options.base, exponents).reciprocal();
  if (options.scaling == RotaryOptions::Scaling::kNone) return plain;
  if (options.scaling == RotaryOptions::Scaling::kLinear) return plain / options.factor;
  const torch::Tensor periods = plain * (static_cast<double>(options.original_context) / (2 * std::numbers::pi));
  const torch::Tensor kept = ((periods - options.low) / (options.high - options.low)).clamp(0, 1);
  return plain * (kept + (1 - kept) / options.factor);
}

}  // namespace

Rotation rotation_of(std::int64_t first, std::int64_t length, std::int64_t width, const RotaryOptions& options,
                     at::Device device) {
  const auto positions = torch::arange(first, first + length, torch::dtype(torch::kFloat).device(device));
  const torch::Tensor angles = positions.unsqueeze(1) * frequencies(width, options, device);
  return {angles.cos(), angles.sin()};
}

torch::Tensor rotate(const torch::Tensor& x, const Rotation& rotation) {
  const torch::Tensor cosine = rotation.cosine.to(x.scalar_type()), sine = rotation.sine.to(x.scalar_type());
  const auto halves = x.chunk(2, -1);
  return torch::cat({halves[0] * cosine - halves[1] * sine, halves[1] * cosine + halves[0] * sine}, -1);
}

}  // namespace mn::models
