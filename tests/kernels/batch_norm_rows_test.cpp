// Compares the operators of batch normalization on a CPU with libtorch in float64. The GPU's kernels, too: they run on
// the host here, one thread after the other.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/kernels/batch_norm_row.hpp>

#include "tests/kernels/reference_batch_norm.hpp"
#include "tests/kernels/reference_loss.hpp"
#include "tests/kernels/serial_team.hpp"

namespace mn {
namespace {

using kernels::BatchNormCall;
using testing::BatchNormInput;
using testing::BatchNormResults;
using testing::error_of;
using testing::SerialTeam;

void expect_near(const BatchNormResults& got, const BatchNormResults& expected, double tolerance) {
  EXPECT_LE(error_of(got.y, expected.y), tolerance);
  EXPECT_LE(error_of(got.d_x, expected.d_x), tolerance);
  EXPECT_LE(error_of(got.d_weight, expected.d_weight), tolerance);
  EXPECT_LE(error_of(got.d_bias, expected.d_bias), tolerance);
  if (!expected.d_added.defined()) return;
  EXPECT_LE(error_of(got.d_added, expected.d_added), tolerance);
}

/// Returns a copy of the tensor, with its strides, whose memory begins `shift` elements past a multiple of 16 bytes.
at::Tensor shifted_copy(const at::Tensor& tensor, std::int64_t shift) {
  if (!tensor.defined()) return tensor;
  const at::Tensor memory = torch::full({tensor.numel() + 16}, NAN, tensor.options());
  return memory.as_strided(tensor.sizes(), tensor.strides(), shift).copy_(tensor);
}

/// Calls run(part) for each part of each strip.
template <class Run>
void for_parts(const BatchNormCall& call, std::int64_t parts, const Run& run) {
  for (std::int64_t strip = 0; strip < kernels::strips_of(call); ++strip)
    for (std::int64_t part = 0; part < parts; ++part) run(kernels::strip_part(call, strip, part, parts));
}

template <class T>
BatchNormResults run_kernels(const BatchNormInput& given, bool last, bool aligned, std::int64_t parts) {
  const std::int64_t shift = aligned ? 0 : 1, count = given.x.size(1);
  const auto copy = [&](const at::Tensor& tensor) { return shifted_copy(tensor, shift); };
  const auto memory = [&] { return copy(torch::full_like(given.x, NAN)); };
  const auto data_of = [](const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; };
  const at::Tensor x = copy(given.x), added = copy(given.added), d_y = copy(given.d_y);
  const at::Tensor y = memory(), d_added = memory(), d_x = memory();
  const auto channels = given.channels();
  const at::Tensor partials = torch::full({parts, 2, count}, NAN, channels[0].options());
  BatchNormCall call{.outer = last ? x.numel() / count : x.size(0),
                     .channels = count,
                     .inner = last ? 1 : x.size(2) * x.size(3),
                     .aligned = aligned,
                     .relu = given.relu,
                     .count = static_cast<double>(x.numel()) / static_cast<double>(count),
                     .x = x.const_data_ptr(),
                     .added = data_of(added),
                     .mean = channels[0].const_data_ptr(),
                     .invstd = channels[1].const_data_ptr(),
                     .weight = channels[2].const_data_ptr(),
                     .bias = channels[3].const_data_ptr(),
                     .y = y.data_ptr(),
                     .mask = added.defined() ? y.const_data_ptr() : nullptr,
                     .d_y = d_y.const_data_ptr(),
                     .d_added = added.defined() ? d_added.data_ptr() : nullptr,
                     .partials = partials.data_ptr(),
                     .d_x = d_x.data_ptr()};
  SerialTeam team(64);
  std::vector<kernels::ThreadSums<Real<T>>> kept(64);
  for_parts(call, parts, [&](const auto& part) { kernels::batch_norm_forward_strip<T>(team, call, part); });
  for_parts(call, parts, [&](const auto& part) { kernels::batch_norm_sums_strip<T>(team, call, part, kept.data()); });
  const at::Tensor sums = partials.sum(0);
  if (!given.fixed) call.sums = sums.const_data_ptr();
  if (added.defined()) call.relu = false, call.mask = nullptr, call.d_y = d_added.const_data_ptr();
  for_parts(call, parts, [&](const auto& part) { kernels::batch_norm_backward_strip<T>(team, call, part); });
  return {y, d_x, d_added, sums[1], sums[0]};
}

template <class T>
void expect_reference(at::ScalarType type, const std::vector<std::int64_t>& shape, bool last, bool aligned,
                      double tolerance) {
  for (const bool with_added : {true, false}) {
    for (const bool relu : {true, false}) {
      for (const bool fixed : {true, false}) {
        SCOPED_TRACE(std::string(c10::toString(type)) + ", " + std::to_string(shape[1]) + " channels, last " +
                     std::to_string(last) + ", aligned " + std::to_string(aligned) + ", added " +
                     std::to_string(with_added) + ", relu " + std::to_string(relu) + ", fixed " +
                     std::to_string(fixed));
        BatchNormInput input = testing::batch_norm_input(shape, type, last);
        if (!with_added) input.added = at::Tensor();
        input.relu = relu, input.fixed = fixed;
        const BatchNormResults expected = testing::reference_batch_norm(input);
        expect_near(run_kernels<T>(input, last, aligned, 1), expected, tolerance);
        expect_near(run_kernels<T>(input, last, aligned, 3), expected, tolerance);
        expect_near(testing::run_batch_norm_operators(input, at::kCPU), expected, tolerance);
      }
    }
  }
}

template <class T>
void expect_reference(at::ScalarType type, double tolerance) {
  expect_reference<T>(type, {3, 132, 2, 3}, /*last=*/true, /*aligned=*/true, tolerance);
  expect_reference<T>(type, {9, 7, 5, 3}, /*last=*/true, /*aligned=*/false, tolerance);
  expect_reference<T>(type, {4, 3, 2, 2}, /*last=*/false, /*aligned=*/true, tolerance);
  expect_reference<T>(type, {2, 3, 33, 17}, /*last=*/false, /*aligned=*/false, tolerance);
}

TEST(BatchNormRows, EqualTheReference) {
  expect_reference<float>(at::kFloat, 5e-6);
  expect_reference<double>(at::kDouble, 1e-12);
  expect_reference<BFloat16>(at::kBFloat16, 0.01);
  expect_reference<Float16>(at::kHalf, 0.001);
}

TEST(BatchNormRows, NansPassRelu) {
  BatchNormInput input = testing::batch_norm_input({2, 4, 2, 2}, at::kFloat, false);
  input.fixed = true;
  std::vector<at::Tensor> channels = input.channels();
  input.x[1][2][0][1] = NAN;
  const auto got = kernels::call_operator<kernels::BatchNormForwardSignature>(
      "mn::batch_norm_forward", input.x, std::optional<at::Tensor>(), channels, true);
  EXPECT_TRUE(got.isnan().equal(input.x.isnan()));
  const auto d_x = kernels::call_operator<kernels::BatchNormBackwardSignature>(
      "mn::batch_norm_backward", input.d_y, input.x, channels, std::optional<at::Tensor>(), 1.0, true);
  EXPECT_NE(d_x[1][2][0][1].item<float>(), 0);  // as libtorch's ReLU passes the gradient
}

}  // namespace
}  // namespace mn
