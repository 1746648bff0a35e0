#include <cstring>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/app/setup.hpp>
#include <mn/app/update.hpp>
#include <mn/core/error.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/optimizers/lamb.hpp>
#include <mn/optimizers/lars.hpp>
#include <mn/tensor/autocast.hpp>

#include "imagenet/data.hpp"
#include "imagenet/metrics.hpp"
#include "imagenet/options.hpp"

namespace mn::jobs {
namespace {

using ::testing::HasSubstr;

std::string npy(const std::string& header, std::size_t values) {
  std::string text = header + std::string((64 - (10 + header.size() + 1) % 64) % 64, ' ') + "\n";
  std::string file = "\x93NUMPY\x01";
  file.push_back(0);
  file.push_back(static_cast<char>(text.size() & 255));
  file.push_back(static_cast<char>(text.size() >> 8));
  file += text;
  for (std::size_t i = 0; i < values; ++i) {
    const auto value = static_cast<float>(i);
    file.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  return file;
}

std::string error_of(const std::string& file) {
  try {
    (void)parse_mean_image(file, "mean.npy");
  } catch (const DataError& error) {
    return error.what();
  }
  return "no error";
}

constexpr const char* kHeader = "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 4), }";

TEST(MeanImage, IsReadFromANumPyFile) {
  const MeanImage image = parse_mean_image(npy(kHeader, 48), "mean.npy");
  EXPECT_EQ(image.side, 4);
  ASSERT_EQ(image.values.size(), 48U);
  EXPECT_EQ(image.values[17], 17.0F);
}

TEST(MeanImage, OtherFilesAreNamed) {
  EXPECT_EQ(error_of("hello"), "mean.npy is not a NumPy file (.npy)");
  EXPECT_THAT(error_of(npy("{'descr': '<f8', 'fortran_order': False, 'shape': (3, 4, 4), }", 48)), HasSubstr("<f8"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': True, 'shape': (3, 4, 4), }", 48)), HasSubstr("True"));
  EXPECT_THAT(error_of(npy("{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4, 5), }", 60)), HasSubstr("4, 5"));
  EXPECT_THAT(error_of(npy(kHeader, 47)), HasSubstr("188 bytes"));
  const std::string whole = npy(kHeader, 48);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(error_of(whole.substr(0, size)), HasSubstr("mean.npy")) << size;
  }
}

TEST(AddAccuracy, CountsBestAndBestFive) {
  const at::Tensor logits = torch::arange(10, torch::kFloat).repeat({4, 1});  // class 9 is best, then 8, …
  Summary report;
  add_accuracy(report, logits, torch::tensor({9, 8, 5, 4}, torch::kLong));
  EXPECT_EQ(report.mean(), (Metrics{{"accuracy", 0.25}, {"accuracy_top5", 0.75}}));
  add_accuracy(report, logits.slice(0, 0, 1), torch::tensor({9}, torch::kLong));
  EXPECT_EQ(report.mean(), (Metrics{{"accuracy", 0.4}, {"accuracy_top5", 0.8}}));  // weighted by samples
  Summary few;
  add_accuracy(few, torch::tensor({{0.0F, 1.0F}, {1.0F, 0.0F}}), torch::tensor({0, 0}, torch::kLong));
  EXPECT_EQ(few.mean(), (Metrics{{"accuracy", 0.5}, {"accuracy_top5", 1}}));  // of two classes both are among five
}

/// The schedule on `ranks` ranks with 100 updates an epoch.
Schedule schedule_of(const ImagenetOptions& options, int ranks) {
  return app::make_schedule(options, base_rate(options),
                            {.samples = options.batchsize * ranks, .updates = 100, .epochs = options.epoch});
}

TEST(MakeSchedule, WarmsUpToTheScaledRate) {
  ImagenetOptions options;
  options.arch = "resnet50";
  options.batchsize = 64;
  options.epoch = 90;
  options.schedule = "step";
  const Schedule schedule = schedule_of(options, 16);  // 1,024 samples a step: four times 256
  EXPECT_DOUBLE_EQ(schedule(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule(250), 0.25);
  EXPECT_DOUBLE_EQ(schedule(500), 0.4);
  EXPECT_DOUBLE_EQ(schedule(2999), 0.4);
  EXPECT_NEAR(schedule(3000), 0.04, 1e-12);
  EXPECT_NEAR(schedule(6000), 0.004, 1e-12);
  EXPECT_NEAR(schedule(8000), 0.0004, 1e-12);
  options.lr = 0.2;
  EXPECT_DOUBLE_EQ(schedule_of(options, 16)(500), 0.8);
}

TEST(MakeSchedule, SmallMinibatchesNeedNoWarmUp) {
  ImagenetOptions options;
  options.arch = "nin";
  options.batchsize = 32;
  options.schedule = "constant";
  const Schedule schedule = schedule_of(options, 1);
  EXPECT_DOUBLE_EQ(schedule(0), 0.01 / 8);
  EXPECT_DOUBLE_EQ(schedule(700), 0.01 / 8);
}

TEST(MakeSchedule, OneCycleRisesByItself) {
  ImagenetOptions options;
  options.arch = "resnet50";
  options.batchsize = 256;
  options.epoch = 10;
  options.schedule = "onecycle";
  const Schedule schedule = schedule_of(options, 2);
  EXPECT_DOUBLE_EQ(schedule(0), 0.2 / 25);
  EXPECT_DOUBLE_EQ(schedule(299), 0.2);
  EXPECT_NEAR(schedule(999), 0.2 / 250'000, 1e-12);
}

TEST(MakeSchedule, LargeBatchOptimizersBeginAtZero) {
  for (const char* optimizer : {"lars", "lamb"}) {
    ImagenetOptions options;
    options.optimizer = optimizer;
    options.lr = 1;
    options.batchsize = 256;
    options.schedule = "constant";
    const Schedule schedule = schedule_of(options, 4);
    EXPECT_EQ(schedule(0), 0);
    EXPECT_DOUBLE_EQ(schedule(250), 2);
    EXPECT_DOUBLE_EQ(schedule(500), 4);
  }
}

TEST(MakeOptimizer, MayDecayAll) {
  ImagenetOptions options;
  options.decay_all = true;
  const torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  const auto optimizer = app::make_optimizer(options, base_rate(options), *model);
  ASSERT_EQ(optimizer->param_groups().size(), 1U);
  EXPECT_EQ(optimizer->param_groups()[0].params().size(), 4U);
}

TEST(MakeOptimizer, LeavesBiasesAndNormalizationsUndecayed) {
  ImagenetOptions options;
  const torch::nn::Sequential model(torch::nn::Linear(3, 4), torch::nn::BatchNorm1d(4));
  const auto optimizer = app::make_optimizer(options, base_rate(options), *model);
  ASSERT_EQ(optimizer->param_groups().size(), 2U);
  const auto decay = [&](std::size_t group) {
    return static_cast<torch::optim::SGDOptions&>(optimizer->param_groups()[group].options()).weight_decay();
  };
  EXPECT_EQ(decay(0), 1e-4);
  EXPECT_EQ(optimizer->param_groups()[0].params().size(), 1U);
  EXPECT_EQ(decay(1), 0);
  EXPECT_EQ(optimizer->param_groups()[1].params().size(), 3U);
}

TEST(MakeOptimizer, KnowsEachByItsName) {
  const torch::nn::Sequential model(torch::nn::Linear(3, 4));
  const auto make = [&](const char* name) {
    ImagenetOptions options;
    options.optimizer = name;
    return app::make_optimizer(options, base_rate(options), *model);
  };
  EXPECT_NE(dynamic_cast<torch::optim::SGD*>(make("sgd").get()), nullptr);
  EXPECT_NE(dynamic_cast<Lars*>(make("lars").get()), nullptr);
  EXPECT_NE(dynamic_cast<FusedAdam*>(make("adam").get()), nullptr);
  EXPECT_NE(dynamic_cast<FusedAdamW*>(make("adamw").get()), nullptr);
  EXPECT_NE(dynamic_cast<Lamb*>(make("lamb").get()), nullptr);
}

/// Products of matrices in 16 bits, with gradients of float32, only while the scope lives.
TEST(Precision, AutocastRunsProductsInItsType) {
  const at::Tensor a = torch::randn({4, 4}).requires_grad_();
  const at::Tensor b = torch::randn({4, 4});
  const std::map<std::string, at::ScalarType> types = {
      {"fp32", at::kFloat}, {"tf32", at::kFloat}, {"bf16", at::kBFloat16}, {"fp16", at::kHalf}};
  for (const auto& [precision, type] : types) {
    {
      const AutocastScope scope(app::autocast_type(precision), Device());
      const at::Tensor product = a.mm(b);
      EXPECT_EQ(product.scalar_type(), type) << precision;
      product.to(torch::kFloat).sum().backward();
      EXPECT_EQ(a.grad().scalar_type(), torch::kFloat);
    }
    EXPECT_EQ(a.mm(b).scalar_type(), torch::kFloat) << "after " << precision;
  }
}

/// --precision tf32 and no other; on CPUs it has no effect.
TEST(Precision, Tf32IsWhatItsNameSaysAlone) {
  for (const std::string precision : {"fp32", "tf32", "bf16", "fp16"}) {
    app::set_precision(precision);
    EXPECT_EQ(at::globalContext().allowTF32CuBLAS(), precision == "tf32") << precision;
    EXPECT_EQ(at::globalContext().allowTF32CuDNN(), precision == "tf32") << precision;
  }
  app::set_precision("fp32");
}

TEST(CheckOptions, SmallImagesAreAnError) {
  ImagenetOptions options;
  options.arch = "alexnet";
  options.image_size = 62;
  EXPECT_THROW(check_options(options), UsageError);
  options.image_size = 63;
  check_options(options);
}

}  // namespace
}  // namespace mn::jobs
