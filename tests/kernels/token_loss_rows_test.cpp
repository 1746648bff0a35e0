// Runs the GPU's kernel for the token loss on the host, one thread after the other, and compares the results with
// libtorch's in float64.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/kernels/token_loss_row.hpp>

#include "tests/kernels/reference_loss.hpp"
#include "tests/kernels/serial_team.hpp"

namespace mn {
namespace {

using kernels::Row;
using kernels::Vector;
using testing::error_of;
using testing::SerialTeam;

template <class T>
constexpr at::ScalarType kType = std::is_same_v<T, double>     ? at::kDouble
                                 : std::is_same_v<T, float>    ? at::kFloat
                                 : std::is_same_v<T, BFloat16> ? at::kBFloat16
                                                               : at::kHalf;
/// The tolerance for a result of type T: the rounding of the result, and of sums in float32.
template <class T>
constexpr double kTolerance = std::is_same_v<T, double>     ? 1e-13
                              : std::is_same_v<T, float>    ? 2e-6
                              : std::is_same_v<T, BFloat16> ? 0.004
                                                            : 0.0006;

/// A matrix whose rows begin at all alignments. Guards, elements of a known value, lie around the rows.
template <class T>
class Rows {
 public:
  Rows(std::int64_t rows, std::int64_t vocabulary, std::int64_t gap)
      : memory_(torch::full({rows * (vocabulary + gap) + 2 * kGuard}, 77, kType<T>)),
        logits_(memory_.narrow(0, kGuard, rows * (vocabulary + gap)).view({rows, -1}).narrow(1, 0, vocabulary)) {
    torch::manual_seed(rows + vocabulary);
    logits_.copy_(torch::randn({rows, vocabulary}) * 4);
  }
  at::Tensor logits() const { return logits_; }
  /// True if no element outside of the rows has changed.
  [[nodiscard]] bool is_whole() const {
    const at::Tensor copy = memory_.clone();
    copy.narrow(0, kGuard, logits_.size(0) * logits_.stride(0))
        .view({logits_.size(0), -1})
        .narrow(1, 0, logits_.size(1))
        .fill_(77);
    return copy.eq(77).all().item<bool>();
  }

 private:
  static constexpr std::int64_t kGuard = 3;  // rows begin at odd addresses
  at::Tensor memory_, logits_;
};

template <class T>
at::Tensor run_kernel(const at::Tensor& logits, const at::Tensor& targets, const TokenLossOptions& options,
                      unsigned threads, bool keep) {
  constexpr at::ScalarType kReal = std::is_same_v<T, double> ? at::kDouble : at::kFloat;
  const at::Tensor losses = torch::full({logits.size(0)}, NAN, kReal), inverse = torch::full({}, NAN, kReal);
  const at::Tensor weights = options.weights.defined() ? options.weights.to(kReal) : at::Tensor();
  const kernels::TokenLossCall call{.logits = logits.data_ptr(),
                                    .rows = logits.size(0),
                                    .vocabulary = logits.size(1),
                                    .row_stride = logits.stride(0),
                                    .targets = targets.const_data_ptr<std::int64_t>(),
                                    .weights = weights.defined() ? weights.const_data_ptr() : nullptr,
                                    .losses = losses.data_ptr(),
                                    .inverse = inverse.data_ptr(),
                                    .ignore_index = options.ignore_index,
                                    .smoothing = options.label_smoothing,
                                    .z_loss = options.z_loss,
                                    .mean = options.reduction == TokenLossReduction::kMean,
                                    .gradient = true};
  SerialTeam team(threads);
  kernels::weigh_rows<Real<T>>(team, call);
  for (std::int64_t row = 0; row < call.rows; ++row) {
    std::vector<Vector<T>> kept(
        Row<T>(static_cast<T*>(call.logits) + row * call.row_stride, call.vocabulary).vectors());
    kernels::token_loss_row<T>(team, call, row, keep ? kept.data() : nullptr);
  }
  return options.reduction == TokenLossReduction::kNone ? losses : losses.sum();
}

template <class T>
void expect_reference(std::int64_t vocabulary, std::int64_t gap, unsigned threads, bool keep) {
  constexpr std::int64_t kRows = 8;
  const at::Tensor targets = torch::randint(vocabulary, {kRows}, torch::kLong);
  for (const TokenLossOptions& options : {testing::loss_options(kRows)[0], testing::loss_options(kRows).back()}) {
    const Rows<T> rows(kRows, vocabulary, gap);
    const at::Tensor numbers = rows.logits().to(torch::kDouble).contiguous().requires_grad_();
    const at::Tensor expected = testing::reference_loss(numbers, targets, options);
    expected.sum().backward();
    const at::Tensor got = run_kernel<T>(rows.logits(), targets, options, threads, keep);
    SCOPED_TRACE(std::string(c10::toString(kType<T>)) + ", " + std::to_string(vocabulary) + " logits, smoothing " +
                 std::to_string(options.label_smoothing) + ", z " + std::to_string(options.z_loss));
    if (!expected.isfinite().all().item<bool>()) continue;  // no row counts: a test of its own
    EXPECT_LE(error_of(got, expected), (std::is_same_v<T, double> ? 1e-13 : 2e-6));
    EXPECT_LE(error_of(rows.logits(), numbers.grad()), kTolerance<T>);
    EXPECT_TRUE(rows.is_whole());
  }
}

TEST(TokenLossRows, EqualTheReferenceAtEveryAlignment) {
  for (const std::int64_t vocabulary : {1, 9, 65}) {
    for (const std::int64_t gap : {0, 1}) {
      expect_reference<BFloat16>(vocabulary, gap, 32, true);
      expect_reference<float>(vocabulary, gap, 64, false);
    }
    expect_reference<Float16>(vocabulary, 1, 32, false);
    expect_reference<double>(vocabulary, 4, 32, true);
  }
  expect_reference<BFloat16>(1030, 1, 96, true);  // more vectors than threads
}

TEST(TokenLossRows, TargetOutsideOfTheVocabularyIsNan) {
  const Rows<float> rows(3, 5, 1);
  const at::Tensor losses = run_kernel<float>(rows.logits(), torch::tensor({4, 5, -1}, torch::kLong),
                                              {.reduction = TokenLossReduction::kNone}, 32, true);
  EXPECT_TRUE(losses.isnan().equal(torch::tensor({false, true, true})));
  EXPECT_TRUE(rows.logits().isnan().all(1).equal(torch::tensor({false, true, true})));
  EXPECT_TRUE(rows.is_whole());
}

TEST(ScaleRows, MultipliesAtEveryAlignment) {
  for (const std::int64_t columns : {1, 8, 21}) {
    const Rows<BFloat16> rows(5, columns, 1);
    const at::Tensor before = rows.logits().clone();
    const at::Tensor factors = torch::tensor({1.0F, 0.5F, -2.0F, 0.0F, 4.0F});
    kernels::ScaleRowsCall call{.data = rows.logits().data_ptr(),
                                .rows = 5,
                                .columns = columns,
                                .row_stride = columns + 1,
                                .factors = factors.const_data_ptr(),
                                .count = 5};
    SerialTeam team(32);
    for (std::int64_t row = 0; row < 5; ++row) kernels::scale_row<BFloat16>(team, call, row);
    EXPECT_TRUE(rows.logits().equal(before * factors.to(torch::kBFloat16).unsqueeze(1)));
    call.count = 1;
    kernels::scale_row<BFloat16>(team, call, 1);  // the first factor serves all rows
    EXPECT_TRUE(rows.logits()[1].equal(before[1] * 0.5));
    EXPECT_TRUE(rows.is_whole());
  }
}

}  // namespace
}  // namespace mn
