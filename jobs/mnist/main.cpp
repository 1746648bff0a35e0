/// jobs/mnist: trains a multilayer perceptron with Adam on any number of ranks, like ChainerMN's MNIST example.
#include <torch/torch.h>

#include <mn/app/app.hpp>

#include "mnist/data.hpp"

namespace {

/// A network of three linear layers l1, l2 and l3 (784 → unit → unit → 10), with ReLU after l1 and l2.
class MlpImpl : public torch::nn::Module {
 public:
  explicit MlpImpl(std::int64_t unit)
      : l1_(register_module("l1", torch::nn::Linear(28 * 28, unit))),
        l2_(register_module("l2", torch::nn::Linear(unit, unit))),
        l3_(register_module("l3", torch::nn::Linear(unit, 10))) {}

  /// Maps images (N, 28, 28) or (N, 784) to logits (N, 10).
  torch::Tensor forward(const torch::Tensor& images) {
    const torch::Tensor hidden = torch::relu(l1_(images.flatten(1)));  // (N, unit)
    return l3_(torch::relu(l2_(hidden)));
  }

 private:
  torch::nn::Linear l1_, l2_, l3_;
};
TORCH_MODULE(Mlp);

}  // namespace

int main(int argc, char** argv) {
  mn::app::CommonOptions common;
  common.cuda_graph = "auto";
  std::int64_t units = 1000;
  std::string data;
  mn::Options options("usage: jobs/mnist [options]\nTrains a perceptron on MNIST, as ChainerMN's example does.");
  options.add("unit", units, "units of each hidden layer", 1);
  options.add("data", data, "DIR", "folder with shards in train and val, or with MNIST's four IDX files");
  return mn::app::run_training(argc, argv, options, common, [&](const std::shared_ptr<mn::Communicator>& comm) {
    const mn::jobs::MnistData samples = mn::jobs::open_mnist(data, common, comm);
    Mlp model = mn::app::make_model(common, comm, [&] { return Mlp(units); });
    return mn::app::Training{
        .model = model.ptr(),
        .train = samples.train,
        .validation = samples.val,
        .loss =
            [model](const mn::Batch& batch, mn::Summary& report) mutable {
              const auto output = model->forward(batch.data);
              const auto right = (output.argmax(1) == batch.target).to(torch::kFloat32).mean();
              report.add("accuracy", right, static_cast<double>(batch.samples));
              return torch::nn::functional::cross_entropy(output, batch.target);
            },
        .unit = "images",
        .banner = {"Num unit: " + std::to_string(units)},
    };
  });
}
