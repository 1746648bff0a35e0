// A mixture of two datasets: 2,000 samples of one and 100 of the other, drawn in shares of 70 % and 30 %. The mean of
// the targets, which a single parameter learns, becomes the share.
#include <torch/torch.h>

#include <mn/mn.hpp>

/// Samples of four numbers whose targets are all `target`.
std::shared_ptr<mn::Dataset> samples_of(std::int64_t size, float target) {
  const mn::SampleSpec spec{.fields = {{.name = "x", .dtype = mn::DType::kFloat32, .shape = {4}},
                                       {.name = "y", .dtype = mn::DType::kFloat32}}};
  return mn::make_dataset(size, spec, [target](std::int64_t index, mn::SampleWriter& sample) {
    sample.set("x", std::vector<float>(4, static_cast<float>(index)));
    sample.set("y", target);
  });
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    const auto mixture = std::make_shared<mn::JoinedDataset>(std::vector{samples_of(2000, 0), samples_of(100, 1)},
                                                             std::vector{0.7, 0.3});
    const auto part = mn::share_dataset(mixture, comm, {.shuffle = true, .seed = 1});
    mn::DataLoader loader(part, {.batchsize = 60 / comm->size(),
                                 .draws = mn::DrawOptions{.weights = mixture->weights()},
                                 .device = comm->device()});
    const auto mean = torch::zeros({1}, comm->device().type == mn::DeviceType::kCuda ? torch::kCUDA : torch::kCPU)
                          .set_requires_grad(true);
    auto optimizer =
        mn::create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(std::vector{mean}, 0.02), comm);
    std::int64_t drawn[2] = {};  // of the second dataset, and of both
    for (int epoch = 0; epoch < 10; ++epoch) {
      while (const auto batch = loader.next()) {
        const auto targets = batch->target;
        optimizer->zero_grad();
        (mean - targets).square().mean().backward();
        optimizer->step(static_cast<double>(batch->samples));
        drawn[0] += targets.sum().item<std::int64_t>();
        drawn[1] += batch->samples;
      }
    }
    comm->allreduce(std::span<std::int64_t>(drawn), mn::ReduceOp::kSum);
    if (comm->rank() == 0) {
      std::cout << "share " << static_cast<double>(drawn[0]) / static_cast<double>(drawn[1]) << "\nmean "
                << mean.item<double>() << std::endl;
    }
    return 0;
  });
}
