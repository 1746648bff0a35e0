// Cross-validation in five folds: each sample is validated once, by a network that has not seen it.
#include <cmath>

#include <torch/torch.h>

#include <mn/mn.hpp>

constexpr int kFolds = 5;

/// A point; its class is 1 inside of a ring.
void make_point(std::int64_t index, mn::SampleWriter& sample) {
  const float radius = std::fmod(index * 0.618F, 2.0F), angle = index * 2.4F;
  sample.set(0, std::vector{radius * std::cos(angle), radius * std::sin(angle)});
  sample.set(1, static_cast<std::int64_t>(radius > 0.5 && radius < 1.5));
}

/// Trains with all folds but one; returns the accuracy over the samples of that fold.
double accuracy(int fold, const std::shared_ptr<mn::Communicator>& comm) {
  const auto samples = [&](bool trains) {
    std::vector<std::int64_t> indices;
    for (int each = 0; each < kFolds; ++each) {  // part_indices() cuts one random order into folds
      if ((each != fold) != trains) continue;
      const auto part = mn::part_indices(1000, each, kFolds, {.shuffle = true, .seed = 1, .force_equal_length = false});
      indices.insert(indices.end(), part.begin(), part.end());
    }
    auto points = mn::make_dataset(1000, mn::labeled({.dtype = mn::DType::kFloat32, .shape = {2}}, 2), make_point);
    const auto part = mn::share_dataset(mn::subset(points, indices), comm, {.shuffle = trains, .seed = 2});
    return std::make_shared<mn::DataLoader>(
        part, mn::LoaderOptions{.batchsize = 60 / comm->size(), .device = comm->device()});
  };
  torch::manual_seed(3);
  torch::nn::Sequential model(torch::nn::Linear(2, 32), torch::nn::Tanh(), torch::nn::Linear(32, 2));
  model->to(comm->device());
  auto optimizer = mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
  const auto train = samples(true);
  for (int epoch = 0; epoch < 15; ++epoch) {
    while (const auto batch = train->next()) {
      optimizer->zero_grad();
      torch::cross_entropy_loss(model->forward(batch->data), batch->target).backward();
      optimizer->step(static_cast<double>(batch->samples));
    }
  }
  const auto evaluate = [&](const mn::Batch& batch, mn::Summary& report) {
    const auto is_right = model->forward(batch.data).argmax(1).eq(batch.target).to(torch::kFloat).mean();
    report.add("accuracy", is_right, static_cast<double>(batch.samples));
  };
  return mn::create_multi_node_evaluator(mn::create_evaluator(samples(false), model.ptr(), evaluate), comm)
      ->evaluate()
      .at("accuracy");
}

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    const auto comm = mn::create_communicator("auto");
    double sum = 0;
    for (int fold = 0; fold < kFolds; ++fold) sum += accuracy(fold, comm);
    if (comm->rank() == 0) std::cout << "accuracy " << sum / kFolds << std::endl;
    return 0;
  });
}
