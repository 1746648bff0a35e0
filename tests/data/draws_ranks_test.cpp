// Draws by weight through the loaders, over ranks: classes of a scattered dataset, and steps of tensors.
#include <numeric>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/function_dataset.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/data/sampler.hpp>
#include <mn/loader/class_values.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/scatter.hpp>
#include <mn/loader/tensor_dataset.hpp>

namespace mn {
namespace {

using testing::HasSubstr;
using testing::ThrowsMessage;

constexpr std::int64_t kDrawn = 1003;
constexpr std::int64_t kStep = 24;

std::shared_ptr<Communicator> all_ranks() {
  static const auto comm = create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}});
  return comm;
}

std::vector<std::int64_t> rare_classes() {
  std::vector<std::int64_t> classes(kDrawn);
  for (std::int64_t i = 0; i < kDrawn; ++i) classes[i] = i % 20 == 3 ? 1 : 0;
  return classes;
}

std::shared_ptr<MemoryDataset> rare_dataset() {
  return std::make_shared<MemoryDataset>(labeled({}, 2),
                                         labeled_samples(ByteBuffer(kDrawn, std::byte{1}), rare_classes()));
}

/// The targets of an epoch over the ranks of `comm`, step after step; each step sorted.
std::vector<std::int64_t> targets_of(Iterator& loader, Communicator& comm = *all_ranks()) {
  std::vector<std::int64_t> all;
  while (const auto batch = loader.next()) {
    const auto mine = batch->target.contiguous();
    std::vector<std::int64_t> step;
    const std::vector<std::int64_t> own(mine.const_data_ptr<std::int64_t>(),
                                        mine.const_data_ptr<std::int64_t>() + mine.numel());
    for (const auto& theirs : comm.allgather_obj(nlohmann::json(own))) {
      step.insert(step.end(), theirs.begin(), theirs.end());
    }
    std::ranges::sort(step);
    all.insert(all.end(), step.begin(), step.end());
  }
  return all;
}

TEST(DrawsRanksTest, EveryRankHasTheClassesOfAllSamples) {
  const auto part = share_dataset(rare_dataset(), all_ranks(), {.shuffle = true, .seed = 3});
  EXPECT_EQ(read_classes(*part, *all_ranks()), rare_classes());
}

template <class T>
std::vector<std::int64_t> classes_stored_as(DType dtype) {
  const SampleSpec spec{.fields = {{.name = "x", .shape = {1}}, {.name = "y", .dtype = dtype, .num_classes = 100}}};
  auto dataset = make_dataset(kDrawn, spec, [](std::int64_t index, SampleWriter& sample) {
    sample.set("x", std::vector<std::uint8_t>{1});
    sample.set("y", static_cast<T>(index % 100));
  });
  return read_classes(*share_dataset(std::move(dataset), all_ranks(), {}), *all_ranks());
}

TEST(DrawsRanksTest, ClassesOfAnyIntegerTypeAreRead) {
  std::vector<std::int64_t> expected(kDrawn);
  for (std::int64_t i = 0; i < kDrawn; ++i) expected[i] = i % 100;
  EXPECT_EQ(classes_stored_as<std::uint8_t>(DType::kUInt8), expected);
  EXPECT_EQ(classes_stored_as<std::int16_t>(DType::kInt16), expected);
  EXPECT_EQ(classes_stored_as<std::uint16_t>(DType::kUInt16), expected);
  EXPECT_EQ(classes_stored_as<std::uint32_t>(DType::kUInt32), expected);
}

TEST(DrawsRanksTest, LoadersDrawEqualStepsForAnyNumberOfRanks) {
  const DrawOptions draws = {.weights = balanced_weights(rare_classes())};
  const auto part = share_dataset(rare_dataset(), all_ranks(), {.shuffle = true, .seed = 3});
  DataLoader loader(part, {.batchsize = kStep / all_ranks()->size(), .draws = draws});
  const std::vector<std::int64_t> numbers = rare_classes();
  TensorLoader tensors(TensorDataset(torch::arange(kDrawn), torch::tensor(numbers)), all_ranks(),
                       {.batchsize = kStep / all_ranks()->size(), .seed = 3, .draws = draws});
  const auto drawn = targets_of(loader);
  EXPECT_EQ(std::ssize(drawn), kDrawn);
  EXPECT_NEAR(std::accumulate(drawn.begin(), drawn.end(), 0.0) / kDrawn, 0.5, 0.06);
  EXPECT_EQ(targets_of(tensors), drawn);
  EXPECT_EQ(loader.epoch(), 1);

  DrawSampler alone(kDrawn, 0, draws, {.batchsize = kStep, .seed = 3, .order = {}});
  std::vector<std::int64_t> expected;
  while (const auto step = alone.next()) {
    std::vector<std::int64_t> classes;
    for (const std::int64_t sample : step->indices) classes.push_back(numbers[sample]);
    std::ranges::sort(classes);
    expected.insert(expected.end(), classes.begin(), classes.end());
  }
  EXPECT_EQ(drawn, expected);
}

TEST(DrawsRanksTest, AResumeOnOtherRanksDrawsTheSameSamples) {
  const DrawOptions draws = {.weights = balanced_weights(rare_classes())};
  const auto loader_of = [&](const std::shared_ptr<Communicator>& comm) {
    return TensorLoader(TensorDataset(torch::zeros({kDrawn}), torch::arange(kDrawn)), comm,
                        {.batchsize = kStep / comm->size(), .seed = 3, .draws = draws});
  };
  TensorLoader together = loader_of(all_ranks());
  for (int step = 0; step < 7; ++step) (void)together.next();
  const auto one_rank = create_communicator("flat", MPI_COMM_SELF, {.device = Device{}});
  TensorLoader alone = loader_of(one_rank);
  alone.load_state(together.state());
  for (int epoch = 0; epoch < 2; ++epoch) {  // the rest of the first epoch, and the second one
    const auto drawn = targets_of(together);
    EXPECT_EQ(std::ssize(drawn), epoch == 0 ? kDrawn - 7 * kStep : kDrawn);
    EXPECT_EQ(targets_of(alone, *one_rank), drawn);
  }
}

TEST(DrawsRanksTest, EveryRankThrowsIfOptionsDiffer) {
  const int rank = all_ranks()->rank();
  const auto make = [](const TensorLoaderOptions& options) {
    TensorLoader(TensorDataset(torch::arange(4), torch::arange(4)), all_ranks(), options);
  };
  const std::vector<double> equal(4, 1);
  std::vector<double> weights = equal;
  weights[0] += rank;
  std::vector<TensorLoaderOptions> all = {
      {.draws = DrawOptions{.weights = weights}},
      {.draws = DrawOptions{.weights = rank == 0 ? weights : std::vector<double>{1}}},
      {.draws = DrawOptions{.weights = equal, .samples = 4 + rank}},
      {.draws = rank == 0 ? std::optional(DrawOptions{.weights = equal}) : std::nullopt},
      {.shuffle = true, .seed = static_cast<std::uint64_t>(rank)}};
  for (const TensorLoaderOptions& options : all) {
    if (all_ranks()->size() > 1) {
      EXPECT_THAT([&] { make(options); },
                  ThrowsMessage<UsageError>(HasSubstr("differ in the options of a TensorLoader")));
    }
  }
}

TEST(DrawsRanksTest, SamplesThatTheRootSentAreRefused) {
  const auto part = scatter_dataset(rare_dataset(), all_ranks(), {.shuffle = true});
  EXPECT_THAT([&] { DataLoader(part, {.draws = DrawOptions{.weights = std::vector<double>(kDrawn, 1)}}); },
              ThrowsMessage<UsageError>(HasSubstr("each rank can read each sample")));
  EXPECT_THAT([&] { (void)read_classes(*part, *all_ranks()); },
              ThrowsMessage<UsageError>(HasSubstr("share_dataset() divides such a dataset")));
  const auto unlabeled =
      make_dataset(kDrawn, SampleSpec{.fields = {{.name = "x", .shape = {1}}}},
                   [](std::int64_t, SampleWriter& sample) { sample.set("x", std::vector<std::uint8_t>{1}); });
  EXPECT_THAT([&] { (void)read_classes(*share_dataset(unlabeled, all_ranks(), {}), *all_ranks()); },
              ThrowsMessage<UsageError>(HasSubstr("`mnshard index --class-field NAME` makes a field")));
}

}  // namespace
}  // namespace mn
