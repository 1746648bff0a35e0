#include <map>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/mix_images.hpp>
#include <mn/loader/mixed_batches.hpp>

namespace mn {
namespace {

constexpr std::int64_t kSamples = 22;
constexpr std::int64_t kClasses = 5;

/// Images of 4 × 4 pixels; sample s has class s mod 5.
std::shared_ptr<Iterator> make_loader(int workers = 1) {
  const SampleSpec spec = labeled({.dtype = DType::kFloat32, .shape = {3, 4, 4}}, kClasses);
  RawSamples samples(spec);
  for (std::int64_t s = 0; s < kSamples; ++s) {
    const at::Tensor image = torch::arange(48, torch::kFloat) + 100 * s;
    const std::int64_t label = s % kClasses;
    samples.add(spec, {std::span(image.const_data_ptr<float>(), 48), std::span(&label, 1)});
  }
  return std::make_shared<DataLoader>(std::make_shared<const MemoryDataset>(spec, std::move(samples)),
                                      LoaderOptions{.batchsize = 7, .shuffle = true, .seed = 3, .workers = workers});
}

MixedBatches mixed(const data::MixOptions& options, int workers = 1, std::uint64_t seed = 9) {
  return {make_loader(workers), options, kClasses, seed};
}

constexpr data::MixOptions kBoth = {.mixup = 0.5, .cutmix = 1};

TEST(MixedBatches, MixWhatIsDrawnForEachSample) {
  const auto plain = make_loader();
  MixedBatches batches = mixed(kBoth);
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto batch = batches.next()) {
      const Batch from = *plain->next();
      ASSERT_EQ(batch->indices, from.indices);
      EXPECT_TRUE((*batch)["x"].is_same(batch->data));
      EXPECT_TRUE((*batch)["label"].is_same(batch->target));
      ASSERT_EQ(batch->target.sizes(), (std::vector<std::int64_t>{batch->samples, kClasses}));
      EXPECT_TRUE(batch->target.sum(1).allclose(torch::ones(batch->samples)));
      for (std::int64_t i = 0; i < batch->samples; ++i) {
        const std::int64_t partner = (i + batch->samples / 2) % batch->samples;
        data::Mix mix = data::choose_mix(kBoth, 4, 4, 9, epoch, batch->indices[i]);
        if (batch->samples == 1) mix = {};
        at::Tensor expected = from.data[i] * mix.share + from.data[partner] * (1 - mix.share);
        if (mix.pasted.width * mix.pasted.height > 0) {
          expected = from.data[i].clone();
          const auto cut = [&](const at::Tensor& image) {
            return image.narrow(1, mix.pasted.y, mix.pasted.height).narrow(2, mix.pasted.x, mix.pasted.width);
          };
          cut(expected).copy_(cut(from.data[partner]));
        }
        EXPECT_TRUE(batch->data[i].allclose(expected));
        at::Tensor target = torch::zeros(kClasses);
        target[from.target[i].item<std::int64_t>()] += mix.share;
        target[from.target[partner].item<std::int64_t>()] += 1 - mix.share;
        EXPECT_TRUE(batch->target[i].allclose(target));
      }
    }
    EXPECT_FALSE(plain->next());
  }
}

TEST(MixedBatches, WorkersChangeNothingAndAResumeGoesOn) {
  MixedBatches batches = mixed(kBoth, 1);
  MixedBatches others = mixed(kBoth, 3);
  for (int i = 0; i < 2; ++i) EXPECT_TRUE(batches.next()->data.equal(others.next()->data));
  MixedBatches resumed = mixed(kBoth, 0, 1234);  // a wrong seed; the state replaces the seed
  resumed.load_state(batches.state());
  for (int i = 0; i < 5; ++i) {
    const auto expected = batches.next();
    const auto batch = resumed.next();
    ASSERT_EQ(batch.has_value(), expected.has_value());
    if (!batch) continue;
    EXPECT_TRUE(batch->data.equal(expected->data));
    EXPECT_TRUE(batch->target.equal(expected->target));
  }
  MixedBatches from_plain = mixed(kBoth);
  EXPECT_NO_THROW(from_plain.load_state(make_loader()->state()));
}

TEST(MixedBatches, BlendOrPasteInEveryLayout) {
  const at::Tensor images = torch::rand({4, 3, 5, 7});
  const std::vector<data::Mix> mixes = {{0.25, {}}, {0.8, {2, 1, 4, 3}}, {}, {0.5, {0, 0, 7, 5}}};
  for (const at::Tensor& from : {images, images.contiguous(at::MemoryFormat::ChannelsLast)}) {
    const at::Tensor result = mix_images(from, mixes);
    EXPECT_EQ(result.strides(), from.strides());
    for (std::int64_t i = 0; i < 4; ++i) {
      const data::Mix& mix = mixes[static_cast<std::size_t>(i)];
      const at::Tensor own = images[i], partner = images[(i + 2) % 4];
      at::Tensor expected = mix.share * own + (1 - mix.share) * partner;
      if (mix.pasted.width > 0) {
        expected = own.clone();
        const auto cut = [&](const at::Tensor& image) {
          return image.narrow(1, mix.pasted.y, mix.pasted.height).narrow(2, mix.pasted.x, mix.pasted.width);
        };
        cut(expected).copy_(cut(partner));
      }
      EXPECT_TRUE(result[i].allclose(expected, 1e-6, 1e-6)) << i;
    }
  }
  EXPECT_EQ(mix_images(images.slice(0, 0, 0), {}).size(0), 0);
  EXPECT_EQ(mix_labels(torch::zeros({0}, torch::kLong), {}, 4).sizes(), (std::vector<std::int64_t>{0, 4}));
}

/// Hands out one batch.
class OneBatch final : public Iterator {
 public:
  explicit OneBatch(Batch batch) : batch_(std::move(batch)) {}
  std::optional<Batch> next() override { return batch_; }
  std::int64_t epoch() const override { return 0; }
  double epoch_detail() const override { return 0; }
  std::int64_t steps_per_epoch() const override { return 1; }
  nlohmann::json state() const override { return {}; }
  void load_state(const nlohmann::json&) override {}
  double data_wait_s() const override { return 0; }

 private:
  Batch batch_;
};

TEST(MixedBatches, OneImageStaysAsItIs) {
  const Batch one{torch::rand({1, 3, 4, 4}), torch::tensor({2}, torch::kLong), 1, {5}};
  MixedBatches batches(std::make_shared<OneBatch>(one), kBoth, kClasses, 0);
  const Batch batch = *batches.next();
  EXPECT_TRUE(batch.data.equal(one.data));
  EXPECT_TRUE(batch.target.equal(torch::one_hot(one.target, kClasses).to(torch::kFloat)));
}

TEST(MixedBatches, OtherBatchesAreErrors) {
  const auto error = [](const Batch& batch) {
    MixedBatches batches(std::make_shared<OneBatch>(batch), kBoth, kClasses, 0);
    EXPECT_THROW((void)batches.next(), ArgumentError);
  };
  const at::Tensor labels = torch::zeros({2}, torch::kLong);
  error({torch::rand({2, 8}), labels, 2, {0, 1}});
  error({torch::zeros({2, 3, 4, 4}, torch::kByte), labels, 2, {0, 1}});
  error({torch::rand({2, 3, 4, 4}), torch::rand({2}), 2, {0, 1}});
  error({torch::rand({2, 3, 4, 4}), labels, 2, {}});
  EXPECT_THROW(mixed({.mixup = -1}), ArgumentError);
  EXPECT_THROW(MixedBatches(make_loader(), kBoth, 0, 0), ArgumentError);
}

}  // namespace
}  // namespace mn
