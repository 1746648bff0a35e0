// exported_training MODEL EVALUATION_MODEL BATCHES OUT RATE: trains an exported model with SGD (momentum 0.9) on the
// minibatches "data.I" and "target.I" of the safetensors file BATCHES, of which each rank takes its equal part.
// Rank 0 writes "losses", "validation", the loss of the first minibatch in evaluation mode afterwards, and the weights
// to OUT.
#include <torch/torch.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/file.hpp>
#include <mn/job/job.hpp>
#include <mn/nn/exported_module.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

namespace {

at::Tensor loss_of(mn::ExportedModule& model, const at::Tensor& data, const at::Tensor& target) {
  return torch::nn::functional::cross_entropy(model.forward(data).flatten(0, -2), target.flatten());
}

int train(char** argv) {
  const auto comm = mn::create_communicator("auto");
  mn::ExportedModule model{std::filesystem::path(argv[1])};
  model.set_evaluation_graph(mn::ExportedFile(std::filesystem::path(argv[2])));
  std::map<std::string, at::Tensor> tensors;
  for (auto& [name, tensor] : mn::from_safetensors(mn::read_file(argv[3]), argv[3])) tensors[name] = tensor;
  const auto optimizer = mn::create_multi_node_optimizer(
      std::make_unique<torch::optim::SGD>(mn::differentiable(model.parameters()),
                                          torch::optim::SGDOptions(std::stod(argv[5])).momentum(0.9)),
      comm);

  const auto part = [&](const std::string& name) { return tensors.at(name).chunk(comm->size()).at(comm->rank()); };
  std::vector<double> losses;
  for (std::string i = "0"; tensors.contains("data." + i); i = std::to_string(losses.size())) {
    optimizer->zero_grad();
    const at::Tensor loss = loss_of(model, part("data." + i), part("target." + i));
    loss.backward();
    optimizer->step();
    double mean = loss.item<double>() / comm->size();
    comm->allreduce(std::span(&mean, 1));
    losses.push_back(mean);
  }
  model.eval();
  const torch::NoGradGuard no_grad;
  const at::Tensor validation = loss_of(model, tensors.at("data.0"), tensors.at("target.0"));
  if (comm->rank() != 0) return 0;
  mn::NamedTensors results = mn::named_tensors(model);
  results.emplace_back("losses", torch::tensor(losses, torch::kDouble));
  results.emplace_back("validation", validation.to(torch::kDouble));
  mn::write_file(argv[4], mn::to_safetensors(results));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) { return train(argv); });
}
