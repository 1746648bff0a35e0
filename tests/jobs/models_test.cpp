#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/models/models.hpp>
#include <mn/tensor/modules.hpp>

namespace mn::models {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::int64_t count_parameters(const torch::nn::Module& model, const std::string& without = "no such name") {
  std::int64_t count = 0;
  for (const auto& item : model.named_parameters()) {
    if (!item.key().starts_with(without)) count += item.value().numel();
  }
  return count;
}

class EveryModel : public ::testing::TestWithParam<std::string> {
 protected:
  EveryModel() { torch::manual_seed(1); }
};

/// As published: torchvision's tables (AlexNet, GoogLeNet with its auxiliary classifiers, ResNets), the Caffe model
/// zoo's NIN and GoogLeNet, timm's ConvNeXt and ViT.
TEST_P(EveryModel, HasThePublishedNumberOfParameters) {
  const std::map<std::string, std::int64_t> published = {{"alexnet", 61'100'840},       {"nin", 7'595'176},
                                                         {"googlenet", 13'378'280},     {"googlenetbn", 13'004'888},
                                                         {"resnet18", 11'689'512},      {"resnet50", 25'557'032},
                                                         {"convnext_tiny", 28'589'128}, {"convnext_small", 50'223'688},
                                                         {"convnext_base", 88'591'464}, {"vit_ti_16", 5'717'416},
                                                         {"vit_s_16", 22'050'664},      {"vit_b_16", 86'567'656}};
  EXPECT_EQ(count_parameters(*create_model(GetParam(), 1000)), published.at(GetParam()));
}

/// As usual for images of 32 × 32: 11.17 and 14.73 million.
TEST(SmallModels, HaveTheUsualNumberOfParameters) {
  EXPECT_EQ(count_parameters(*create_small_resnet18(10)), 11'173'962);
  EXPECT_EQ(count_parameters(*create_small_vgg16(10)), 14'728'266);
  for (const auto& model : {create_small_resnet18(7), create_small_vgg16(7)}) {
    EXPECT_EQ(model->forward(torch::randn({2, 3, 32, 32})).sizes(), (std::vector<std::int64_t>{2, 7}));
  }
}

TEST_P(EveryModel, MapsImagesToLogits) {
  const torch::NoGradGuard no_grad;
  for (const std::int64_t size : {std::int64_t{112}, min_image_size(GetParam())}) {
    const auto model = create_model(GetParam(), 7, {.image_size = size});
    const auto images = torch::randn({2, 3, size, size});
    model->eval();
    const auto logits = model->forward(images);
    EXPECT_EQ(logits.sizes(), (std::vector<std::int64_t>{2, 7})) << size;
    EXPECT_TRUE(logits.isfinite().all().item<bool>());
    EXPECT_EQ(model->forward_heads(images).size(), 1u);
    // One image's logits do not depend on its neighbors.
    EXPECT_TRUE(torch::allclose(model->forward(images.slice(0, 1, 2)), logits.slice(0, 1, 2), 1e-3, 1e-4));
  }
}

TEST_P(EveryModel, HasTheSameLogitsWithChannelsLast) {
  const torch::NoGradGuard no_grad;
  const auto model = create_model(GetParam(), 7, {.image_size = 112});
  model->eval();
  const auto images = torch::randn({2, 3, 112, 112});
  const auto expected = model->forward(images);
  use_channels_last(*model);
  for (const auto& weight : model->parameters()) {
    EXPECT_TRUE(weight.dim() != 4 || weight.is_contiguous(at::MemoryFormat::ChannelsLast));
    EXPECT_TRUE(weight.requires_grad());
  }
  const auto logits = model->forward(images.contiguous(at::MemoryFormat::ChannelsLast));
  EXPECT_TRUE(torch::allclose(logits, expected, 1e-3, 1e-4));
}

TEST_P(EveryModel, TrainsOnOneImageFromTheSizeThatItSays) {
  const std::int64_t size = min_image_size_alone(GetParam());
  const auto model = create_model(GetParam(), 3, {.image_size = size});
  EXPECT_NO_THROW((void)model->forward_heads(torch::randn({1, 3, size, size})));
  if (size == min_image_size(GetParam())) return;
  EXPECT_THROW((void)model->forward_heads(torch::randn({1, 3, size - 1, size - 1})), std::exception);
  EXPECT_NO_THROW((void)model->forward_heads(torch::randn({2, 3, size - 1, size - 1})));
}

TEST_P(EveryModel, MemoryFormatChangesNothing) {
  const torch::NoGradGuard no_grad;
  const auto model = create_model(GetParam(), 5, {.image_size = 96});
  model->eval();
  const auto images = torch::randn({2, 3, 96, 96});
  EXPECT_TRUE(torch::allclose(model->forward(images.contiguous(at::MemoryFormat::ChannelsLast)), model->forward(images),
                              1e-3, 1e-4));
}

TEST_P(EveryModel, EveryParameterGetsAGradient) {
  const auto model = create_model(GetParam(), 5, {.image_size = 96});
  model->train();
  const auto heads = model->forward_heads(torch::randn({2, 3, 96, 96}));
  torch::Tensor loss = heads[0].square().mean();
  for (std::size_t i = 1; i < heads.size(); ++i) loss = loss + kAuxiliaryWeight * heads[i].square().mean();
  loss.backward();
  for (const auto& item : model->named_parameters()) {
    ASSERT_TRUE(item.value().grad().defined()) << item.key();
    EXPECT_TRUE(item.value().grad().isfinite().all().item<bool>()) << item.key();
  }
}

/// At the start no class is preferred by much: the loss is that of guessing.
TEST_P(EveryModel, StartsFromGuessing) {
  const torch::NoGradGuard no_grad;
  const auto model = create_model(GetParam(), 10, {.image_size = 96});
  model->train();
  const auto logits = model->forward(torch::randn({8, 3, 96, 96}));
  const auto target = torch::randint(10, {8}, torch::kLong);
  EXPECT_NEAR(torch::nn::functional::cross_entropy(logits, target).item<double>(), std::log(10.0), 0.7);
}

INSTANTIATE_TEST_SUITE_P(Models, EveryModel, ::testing::ValuesIn(model_names()),
                         [](const auto& test) { return test.param; });

TEST(Models, AuxiliaryClassifiersServeTrainingOnly) {
  for (const std::string name : {"googlenet", "googlenetbn"}) {
    const auto model = create_model(name, 3);
    model->train();
    EXPECT_EQ(model->forward_heads(torch::randn({2, 3, 64, 64})).size(), 3u);
  }
  EXPECT_EQ(count_parameters(*create_model("googlenet", 1000), "aux"), 6'998'552);
  EXPECT_EQ(count_parameters(*create_model("googlenetbn", 1000), "aux"), 6'624'904);
}

TEST(Models, CarryTorchvisionsNames) {
  using Shape = std::vector<std::int64_t>;
  const std::map<std::string, std::map<std::string, Shape>> expected = {
      {"resnet18",
       {{"layer2.0.downsample.0.weight", {128, 64, 1, 1}},
        {"layer4.1.bn2.running_var", {512}},
        {"layer3.1.bn1.num_batches_tracked", {}}}},
      {"resnet50", {{"layer1.0.conv3.weight", {256, 64, 1, 1}}, {"fc.weight", {10, 2048}}}},
      {"alexnet", {{"features.10.weight", {256, 256, 3, 3}}, {"classifier.6.bias", {10}}}},
      {"googlenetbn", {{"inception4d.branch3.1.conv.weight", {64, 32, 3, 3}}, {"aux2.conv.bn.running_mean", {128}}}}};
  for (const auto& [arch, tensors] : expected) {
    const auto model = create_model(arch, 10);
    const auto parameters = model->named_parameters();
    const auto buffers = model->named_buffers();
    for (const auto& [name, shape] : tensors) {
      const auto* tensor = parameters.find(name) != nullptr ? parameters.find(name) : buffers.find(name);
      ASSERT_NE(tensor, nullptr) << arch << ": " << name;
      EXPECT_EQ(tensor->sizes(), shape) << arch << ": " << name;
    }
  }
}

TEST(Models, UnknownNameListsTheKnown) {
  try {
    (void)create_model("resnet51", 10);
    FAIL();
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("\"resnet51\""), HasSubstr("resnet18, resnet50"), HasSubstr("alexnet")));
  }
}

TEST(Models, TooSmallImagesAreWhatMinImageSizeSays) {
  const torch::NoGradGuard no_grad;
  for (const std::string name : {"alexnet", "nin", "googlenet"}) {
    const auto model = create_model(name, 3);
    model->eval();
    const std::int64_t size = min_image_size(name) - 1;
    EXPECT_THROW((void)model->forward(torch::zeros({1, 3, size, size})), c10::Error) << name;
  }
}

}  // namespace
}  // namespace mn::models
