// Minibatches by name and position.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/loader/loader.hpp>

#include "tests/data/field_kinds.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using test::message_of;
using testing::HasSubstr;

/// Sample s has s mod 4 tokens, all s, and pairs of as many rows.
std::shared_ptr<Dataset> ragged(std::int64_t samples) {
  const SampleSpec spec = {{{.name = "tokens", .kind = FieldKind::kVariable, .dtype = DType::kInt32},
                            {.name = "score", .dtype = DType::kFloat32},
                            {.name = "pairs", .kind = FieldKind::kVariable, .dtype = DType::kFloat32, .shape = {2}}}};
  return make_dataset(samples, spec, [](std::int64_t s, SampleWriter& sample) {
    sample.set("tokens", std::vector<std::int32_t>(s % 4, static_cast<std::int32_t>(s)));
    sample.set("score", static_cast<float>(s));
    sample.set("pairs", std::vector<float>(2 * (s % 4), static_cast<float>(s)));
  });
}

Batch first_batch(const std::shared_ptr<Dataset>& dataset, LoaderOptions options) {
  DataLoader loader(std::shared_ptr<const Dataset>(dataset), std::move(options));
  return *loader.next();
}

TEST(Batch, HasItsFieldsByNameAndPosition) {
  const Batch batch = first_batch(ragged(9), {.batchsize = 9});
  EXPECT_TRUE(batch.data.is_same(batch[0]));
  EXPECT_TRUE(batch.data.is_same(batch["tokens"]));
  EXPECT_TRUE(batch.target.is_same(batch[1]));
  EXPECT_TRUE(batch.target.is_same(batch["score"]));
  EXPECT_TRUE(batch[2].is_same(batch["pairs"]));
  EXPECT_EQ(batch["pairs"].sizes(), (std::vector<std::int64_t>{12, 2}));
  EXPECT_TRUE(torch::equal(batch.field("tokens").offsets, torch::tensor({0, 0, 1, 3, 6, 6, 7, 9, 12, 12})));
  EXPECT_EQ(batch.field("tokens").longest, 3);
  EXPECT_EQ(batch.field(0).longest, 3);
  EXPECT_THAT(message_of<ArgumentError>([&] { (void)batch["label"]; }), HasSubstr("tokens, score, pairs"));
  EXPECT_THROW((void)batch[3], ArgumentError);
}

TEST(Batch, PadsWhatVaries) {
  const Batch batch = first_batch(ragged(4), {.batchsize = 4});
  const at::Tensor expected = torch::tensor({{-1, -1, -1}, {1, -1, -1}, {2, 2, -1}, {3, 3, 3}}, torch::kInt);
  EXPECT_TRUE(torch::equal(batch.padded("tokens", -1), expected));
  EXPECT_TRUE(torch::equal(batch.padded(0, -1), expected));
  const at::Tensor pairs = batch.padded("pairs");
  EXPECT_EQ(pairs.sizes(), (std::vector<std::int64_t>{4, 3, 2}));
  EXPECT_EQ(pairs.sum().item<float>(), 2 * (1 + 2 * 2 + 3 * 3));
  EXPECT_EQ(pairs[2][1][0].item<float>(), 2);
  EXPECT_EQ(pairs[2][2][0].item<float>(), 0);
  EXPECT_THAT(message_of<ArgumentError>([&] { (void)batch.padded("score"); }), HasSubstr("equally long"));
  const Batch none = first_batch(ragged(1), {.batchsize = 1});
  EXPECT_EQ(none.padded("pairs").sizes(), (std::vector<std::int64_t>{1, 0, 2}));
}

TEST(Batch, ATransformMayReturnTheFirstFieldOrAll) {
  LoaderOptions options{.batchsize = 6};
  options.transform = [](const RawBatch& batch, std::vector<SampleError>&) -> at::Tensor {
    return torch::full({batch.samples.size()}, 7);
  };
  const Batch first = first_batch(ragged(6), options);
  EXPECT_EQ(first.data.sum().item<std::int64_t>(), 42);
  EXPECT_EQ(first["pairs"].size(0), 0 + 1 + 2 + 3 + 0 + 1);
  options.transform = [](const RawBatch& batch, std::vector<SampleError>&) -> std::vector<BatchField> {
    return {{.name = "sum", .values = default_field(batch, 1).values * 2}, {.name = "", .values = torch::ones({6})}};
  };
  const Batch all = first_batch(ragged(6), options);
  EXPECT_EQ(all.fields.size(), 2u);
  EXPECT_TRUE(all.data.is_same(all["sum"]));
  EXPECT_TRUE(all.target.is_same(all["score"])) << "a field without a name has the spec's";
}

TEST(Batch, AnEncodedFieldNeedsATransform) {
  const auto images = test::made_kind(labeled({.kind = FieldKind::kEncoded}, test::kClasses), 5);
  EXPECT_THAT(message_of<ArgumentError>([&] { (void)first_batch(images, {.batchsize = 5}); }),
              HasSubstr("field image is encoded"));
}

TEST(Batch, OfAnIteratorWithoutNamesHasPositions) {
  const Batch batch{torch::ones({2}), torch::zeros({2}), 2};
  EXPECT_TRUE(batch[0].is_same(batch.data));
  EXPECT_TRUE(batch[1].is_same(batch.target));
  EXPECT_THAT(message_of<ArgumentError>([&] { (void)batch["data"]; }), HasSubstr("none with a name"));
}

TEST(Batch, IsTheSameForAnyNumberOfWorkers) {
  std::vector<at::Tensor> sums;
  for (const int workers : {0, 1, 3}) {
    DataLoader loader(std::shared_ptr<const Dataset>(ragged(100)),
                      {.batchsize = 7, .shuffle = true, .workers = workers, .prefetch = 4});
    std::vector<at::Tensor> parts;
    while (const auto batch = loader.next()) parts.push_back(batch->padded("tokens", -1).flatten());
    sums.push_back(torch::cat(parts));
  }
  EXPECT_TRUE(torch::equal(sums[0], sums[1]));
  EXPECT_TRUE(torch::equal(sums[0], sums[2]));
}

}  // namespace
}  // namespace mn
