// order_accuracy TRAIN VAL EPOCHS SEED…: trains a small ResNet on two datasets of images (mnshard images), with each
// seed once in a full shuffle and once in lanes, as large data are read (order.hpp): the dataset says that it is too
// large for a full shuffle. Few samples have few lanes (24 of 5,000 samples, where ImageNet has 3,072), so lanes mix
// worse here than in large data. Prints the accuracies on VAL, their means and standard deviations.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/data/order.hpp>
#include <mn/loader/image_transform.hpp>
#include <mn/loader/loader.hpp>

namespace {

constexpr int kPixels = 32;

/// A dataset that says it is as large as ImageNet.
class Large final : public mn::Dataset {
 public:
  explicit Large(std::shared_ptr<mn::Dataset> samples) : samples_(std::move(samples)) {}

 private:
  std::int64_t do_size() const override { return samples_->size(); }
  const mn::SampleSpec& do_spec() const override { return samples_->spec(); }
  void do_read(std::span<const std::int64_t> indices, mn::RawSamples& out,
               std::vector<mn::SampleError>* damaged) const override {
    samples_->read(indices, out, damaged);
  }
  std::uint64_t do_fingerprint() const override { return samples_->fingerprint(); }
  mn::StorageLayout do_layout() const override {
    return {.bytes = std::int64_t{140} << 30, .files = 560, .live_bytes = 110'000};
  }

  std::shared_ptr<mn::Dataset> samples_;
};

struct BlockImpl : torch::nn::Module {
  BlockImpl(int from, int to, int stride)
      : conv1(register_module("conv1", convolution(from, to, 3, stride))),
        norm1(register_module("norm1", torch::nn::BatchNorm2d(to))),
        conv2(register_module("conv2", convolution(to, to, 3, 1))),
        norm2(register_module("norm2", torch::nn::BatchNorm2d(to))),
        shortcut(register_module("shortcut", convolution(from, to, 1, stride))) {}

  static torch::nn::Conv2d convolution(int from, int to, int kernel, int stride) {
    return torch::nn::Conv2d(torch::nn::Conv2dOptions(from, to, kernel).stride(stride).padding(kernel / 2).bias(false));
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto y = norm2(conv2(torch::relu(norm1(conv1(x)))));
    return torch::relu(y + shortcut(x));
  }

  torch::nn::Conv2d conv1;
  torch::nn::BatchNorm2d norm1;
  torch::nn::Conv2d conv2;
  torch::nn::BatchNorm2d norm2;
  torch::nn::Conv2d shortcut;
};
TORCH_MODULE(Block);

torch::nn::Sequential make_network(std::int64_t classes) {
  return torch::nn::Sequential(Block(3, 16, 1), Block(16, 32, 2), Block(32, 64, 2),
                               torch::nn::AdaptiveAvgPool2d(torch::nn::AdaptiveAvgPool2dOptions(1)),
                               torch::nn::Flatten(), torch::nn::Linear(64, classes));
}

mn::LoaderOptions options_for(bool training, std::uint64_t seed) {
  using mn::data::CropMode;
  const mn::data::CropOptions crop{.mode = training ? CropMode::kRandomResized : CropMode::kCenter,
                                   .size = kPixels,
                                   .resize = kPixels,
                                   .min_area = 0.3};
  mn::LoaderOptions options{.batchsize = 64, .shuffle = training, .seed = seed};
  options.transform = mn::image_transform(crop, {}, mn::data::PixelLayout::kNchw, {});
  return options;
}

double accuracy(torch::nn::Sequential& network, const std::shared_ptr<const mn::Dataset>& samples) {
  const torch::NoGradGuard no_grad;
  network->eval();
  mn::DataLoader loader(samples, options_for(false, 0));
  std::int64_t right = 0;
  while (const auto batch = loader.next()) {
    right += network->forward(batch->data).argmax(1).eq(batch->target).sum().item<std::int64_t>();
  }
  network->train();
  return 100.0 * static_cast<double>(right) / static_cast<double>(samples->size());
}

double train(const std::shared_ptr<const mn::Dataset>& samples, const std::shared_ptr<const mn::Dataset>& validation,
             std::uint64_t seed, int epochs) {
  torch::manual_seed(seed);
  auto network = make_network(samples->spec().num_classes());
  torch::optim::SGD optimizer(network->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9).weight_decay(5e-4));
  mn::DataLoader loader(samples, options_for(true, seed));
  const double steps = static_cast<double>(epochs * loader.steps_per_epoch());
  double step = 0;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    for (auto batch = loader.next(); batch; batch = loader.next(), ++step) {
      const double rate = 0.1 * std::min(1.0, std::min(step / (0.2 * steps), (steps - step) / (0.8 * steps)));
      static_cast<torch::optim::SGDOptions&>(optimizer.param_groups()[0].options()).lr(rate);
      optimizer.zero_grad();
      torch::nn::functional::cross_entropy(network->forward(batch->data), batch->target).backward();
      optimizer.step();
    }
  }
  return accuracy(network, validation);
}

void print(const char* name, const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  std::printf("%-12s mean %.2f %%, standard deviation %.2f\n", name, mean, std::sqrt(squares / std::max(n - 1, 1.0)));
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 5) return std::fprintf(stderr, "usage: order_accuracy TRAIN VAL EPOCHS SEED...\n"), 2;
  const int epochs = std::atoi(argv[3]);
  try {
    const std::shared_ptr<mn::Dataset> samples = mn::open_dataset(argv[1]);
    const std::shared_ptr<const mn::Dataset> validation = mn::open_dataset(argv[2]);
    const auto large = std::make_shared<Large>(samples);
    const mn::data::OrderOptions order = mn::data::default_order(large->size(), large->layout(), true);
    std::printf("%lld samples, %lld lanes, %lld windows\n", static_cast<long long>(samples->size()),
                static_cast<long long>(order.lanes), static_cast<long long>(order.windows));
    std::fflush(stdout);
    std::vector<double> full, lanes;
    for (int i = 4; i < argc; ++i) {
      const auto seed = static_cast<std::uint64_t>(std::atoi(argv[i]));
      full.push_back(train(samples, validation, seed, epochs));
      lanes.push_back(train(large, validation, seed, epochs));
      std::printf("seed %s: full shuffle %.2f %%, lanes %.2f %%\n", argv[i], full.back(), lanes.back());
      std::fflush(stdout);
    }
    print("full shuffle", full);
    print("lanes", lanes);
    return 0;
  } catch (const mn::Error& error) {
    return std::fprintf(stderr, "order_accuracy: %s\n", error.what()), 1;
  }
}
