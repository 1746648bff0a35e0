// Datasets that call a function for each sample.
#include <algorithm>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/data/function_dataset.hpp>

#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using test::message_of;
using testing::HasSubstr;

TEST(FunctionDataset, RefusesWhatDoesNotFit) {
  const SampleSpec spec = labeled({.shape = {2}}, 3);
  const std::uint8_t x[] = {1, 2};
  RawSamples out;
  const std::int64_t index = 0;
  const auto refusal = [&](const SampleFunction& function) {
    return message_of<ArgumentError>([&] { make_dataset(5, spec, function)->read(std::span(&index, 1), out); });
  };
  EXPECT_THAT(refusal([&](auto, SampleWriter& s) { s.set("x", x); }), HasSubstr("field label of a sample is not set"));
  EXPECT_THAT(refusal([&](auto, SampleWriter& s) { s.set("label", 1); }), HasSubstr("int32"));
  EXPECT_THAT(refusal([&](auto, SampleWriter& s) { s.set("label", std::int64_t{3}); }), HasSubstr("is 3, but has"));
  EXPECT_THAT(refusal([&](auto, SampleWriter& s) { s.set("y", std::int64_t{3}); }), HasSubstr("no field \"y\""));
  EXPECT_THAT(refusal([&](auto, SampleWriter& s) {
                s.set(0, x);
                s.set(0, x);
              }),
              HasSubstr("set twice"));
  EXPECT_THROW((void)make_dataset(5, labeled({}), [](auto, auto&) {}), ArgumentError);
  EXPECT_THROW((void)make_dataset(-1, spec, [](auto, auto&) {}), ArgumentError);
  EXPECT_THROW((void)make_dataset(5, spec, nullptr), ArgumentError);
}

TEST(FunctionDataset, ADataErrorIsADamagedSample) {
  const SampleSpec spec = {{{.name = "tokens", .kind = FieldKind::kVariable, .dtype = DType::kInt32},
                            {.name = "y", .dtype = DType::kFloat32}}};
  const auto dataset = make_dataset(5, spec, [](std::int64_t index, SampleWriter& sample) {
    const std::vector<std::int32_t> tokens(index, 7);
    sample.set("tokens", tokens);
    if (index == 3) throw DataError("no luck");
    sample.set("y", 1.5F);
  });
  RawSamples out;
  std::vector<SampleError> damaged;
  const std::int64_t indices[] = {4, 3, 2};
  dataset->read(indices, out, &damaged);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_EQ(damaged[0].position, 1);
  EXPECT_EQ(damaged[0].what, "sample 3: no luck");
  EXPECT_EQ(out.columns[0].offsets, (std::vector<std::int64_t>{0, 16, 16, 24}));
  EXPECT_TRUE(std::ranges::equal(out.columns[1].values<float>(), std::vector<float>{1.5F, 0, 1.5F}));
  EXPECT_THROW(dataset->read(indices, out), DataError);
}

}  // namespace
}  // namespace mn
