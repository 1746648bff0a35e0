// Runs the GPU's norm kernels on the host, one thread after the other, and compares the results with libtorch's in
// float64.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/kernels/layer_norm_row.hpp>

#include "tests/kernels/reference_loss.hpp"
#include "tests/kernels/reference_norm.hpp"
#include "tests/kernels/serial_team.hpp"

namespace mn {
namespace {

using kernels::NormCall;
using testing::error_of;
using testing::NormInput;
using testing::NormResults;
using testing::SerialTeam;

constexpr double kEps = 0.01;

/// Returns a copy of the tensor, whose memory begins `shift` elements past a multiple of 16 bytes.
at::Tensor shifted(const at::Tensor& tensor, std::int64_t shift) {
  if (!tensor.defined()) return tensor;
  const at::Tensor memory = torch::full({tensor.numel() + 16}, NAN, tensor.options());
  const at::Tensor result = memory.narrow(0, shift, tensor.numel()).view(tensor.sizes());
  result.copy_(tensor);
  return result;
}
const void* data_of(const at::Tensor& tensor) { return tensor.defined() ? tensor.const_data_ptr() : nullptr; }

/// Runs all `blocks` blocks of a kernel. Each block has `teams` teams of 32 threads, which take the rows in turn.
template <class S, class B>
NormResults run_kernels(const NormInput& given, bool aligned, bool centered, std::int64_t blocks, std::int64_t teams) {
  const std::int64_t shift = aligned ? 0 : 1;
  NormInput in;
  for (auto member : {&NormInput::x, &NormInput::branch, &NormInput::weight, &NormInput::bias, &NormInput::d_sum,
                      &NormInput::d_normalized}) {
    in.*member = shifted(given.*member, shift);
  }
  const std::int64_t rows = in.x.size(0), width = in.x.size(1);
  const auto memory = [&](at::ScalarType type) { return shifted(torch::full({rows, width}, NAN, type), shift); };
  const at::ScalarType of_branch = in.d_normalized.scalar_type(), of_numbers = in.weight.scalar_type();
  const at::Tensor sum = in.branch.defined() ? memory(in.x.scalar_type()) : in.x, normalized = memory(of_branch);
  const at::Tensor statistics = torch::full({rows, 2}, NAN, of_numbers);
  NormCall call{.rows = rows,
                .width = width,
                .aligned = aligned,
                .centered = centered,
                .eps = kEps,
                .x = data_of(in.x),
                .added = data_of(in.branch),
                .weight = data_of(in.weight),
                .bias = data_of(in.bias),
                .sum = sum.data_ptr(),
                .normalized = normalized.data_ptr(),
                .statistics = statistics.data_ptr()};
  SerialTeam team(32);
  const std::int64_t stride = (width + kernels::kSome - 1) / kernels::kSome * kernels::kSome;
  std::vector<Real<S>> kept(static_cast<std::size_t>(stride));
  for (std::int64_t row = 0; row < rows; ++row) kernels::norm_forward_row<S, B>(team, call, row, kept.data());

  const at::Tensor d_x = memory(in.x.scalar_type()), d_added = memory(of_branch);
  const at::Tensor partials = torch::full({blocks, 2, width}, NAN, of_numbers);
  call.x = sum.data_ptr();
  call.d_normalized = data_of(in.d_normalized);
  call.d_sum = data_of(in.d_sum);
  call.d_x = d_x.data_ptr();
  call.d_added = d_added.data_ptr();
  call.partials = partials.data_ptr();
  for (std::int64_t block = 0; block < blocks; ++block) {
    std::vector<Real<S>> sums(static_cast<std::size_t>(teams * 2 * stride));
    for (std::int64_t t = 0; t < teams; ++t)
      for (std::int64_t row = block * teams + t; row < rows; row += blocks * teams)
        kernels::norm_backward_row<S, B>(team, call, row, sums.data() + t * 2 * stride, stride);
    for (unsigned thread = 0; thread < 64; ++thread)
      kernels::write_partials(call, sums.data(), stride, teams, block, thread, 64);
  }
  EXPECT_LE(error_of(d_added, d_x), of_branch == at::kDouble ? 0 : 0.004);
  const at::Tensor of_parameters = partials.sum(0);
  return {sum, normalized, d_x, of_parameters[0], of_parameters[1]};
}

void expect_near(const NormResults& got, const NormResults& expected, double of_stream, double of_branch) {
  EXPECT_LE(error_of(got.sum, expected.sum), of_stream);
  EXPECT_LE(error_of(got.normalized, expected.normalized), of_branch);
  EXPECT_LE(error_of(got.d_x, expected.d_x), of_branch);
  EXPECT_LE(error_of(got.d_weight, expected.d_weight), of_branch);
  if (expected.d_bias.defined()) {
    EXPECT_LE(error_of(got.d_bias, expected.d_bias), of_branch);
  }
}

template <class S, class B>
void expect_reference(bool aligned, std::int64_t width, at::ScalarType stream, at::ScalarType branch, double of_stream,
                      double of_branch) {
  for (const std::int64_t rows : {1, 13}) {
    for (const bool centered : {true, false}) {
      for (const bool lacks : {false, true}) {  // a branch, a bias and a gradient of the sum
        SCOPED_TRACE(std::to_string(rows) + " × " + std::to_string(width) + ", centered " + std::to_string(centered) +
                     ", lacks " + std::to_string(lacks));
        NormInput input = testing::norm_input(rows, width, stream, branch);
        if (lacks) input.branch = input.d_sum = at::Tensor();
        if (lacks || !centered) input.bias = at::Tensor();
        expect_near(run_kernels<S, B>(input, aligned, centered, 2, 3), testing::reference_norm(input, kEps, centered),
                    of_stream, of_branch);
      }
    }
  }
}

TEST(NormRows, EqualTheReference) {
  for (const std::int64_t width : {4, 132}) {
    expect_reference<float, float>(true, width, at::kFloat, at::kFloat, 1e-6, 2e-6);
    expect_reference<float, BFloat16>(true, width, at::kFloat, at::kBFloat16, 1e-6, 0.004);
    expect_reference<double, double>(true, width, at::kDouble, at::kDouble, 1e-14, 1e-12);
  }
  for (const std::int64_t width : {3, 130}) {
    expect_reference<float, float>(false, width, at::kFloat, at::kFloat, 1e-6, 2e-6);
    expect_reference<float, Float16>(false, width, at::kFloat, at::kHalf, 1e-6, 0.001);
    expect_reference<double, double>(false, width, at::kDouble, at::kDouble, 1e-14, 1e-12);
  }
}

}  // namespace
}  // namespace mn
