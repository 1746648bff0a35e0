/// jobs/mnist: ChainerMN's MNIST example, a multilayer perceptron trained with Adam on any number of ranks.
#include <torch/torch.h>

#include <mn/app/app.hpp>

#include "mnist/data.hpp"
#include "mnist/perceptron.hpp"

int main(int argc, char** argv) {
  mn::app::CommonOptions common;
  std::int64_t units = 1000;
  std::string data;
  mn::Options options("usage: jobs/mnist [options]\nTrains a perceptron on MNIST, as ChainerMN's example does.");
  options.add("unit", units, "units of each hidden layer", 1);
  options.add("data", data, "DIR", "folder with shards in train and val, or with MNIST's four IDX files");
  return mn::app::run_training(argc, argv, options, common, [&](const std::shared_ptr<mn::Communicator>& comm) {
    const mn::jobs::MnistData samples = mn::jobs::open_mnist(data, common, comm);
    mn::jobs::Mlp model(units);
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
        .banner = {"Num unit: " + std::to_string(units)},
    };
  });
}
