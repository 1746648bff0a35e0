/// jobs/mnist: ChainerMN's MNIST example, a multilayer perceptron trained with Adam on any number of ranks.
#include <iostream>

#include <torch/torch.h>

#include <mn/app/precision.hpp>
#include <mn/app/reports.hpp>
#include <mn/app/setup.hpp>
#include <mn/app/weights.hpp>
#include <mn/mn.hpp>

#include "mnist/data.hpp"
#include "models/mlp.hpp"

namespace {

using mn::jobs::AutocastScope;
using mn::jobs::Mlp;

struct MnistOptions : mn::jobs::CommonOptions {
  std::int64_t unit = 1000;
  std::string data;
};

void declare(mn::Options& options, MnistOptions& given) {
  mn::jobs::add_common_options(options, given);
  options.add("unit", given.unit, "units of each hidden layer", 1);
  options.add("data", given.data, "DIR", "folder with shards in train and val, or with MNIST's four IDX files");
}

void print_banner(const MnistOptions& options, const mn::Communicator& comm) {
  const std::string rule(42, '=');
  std::cout << rule << "\nNum process (COMM_WORLD): " << comm.size() << "\nUsing "
            << (comm.device().type == mn::DeviceType::kCuda ? "GPUs" : "CPUs") << "\nUsing " << comm.name()
            << " communicator\nNum unit: " << options.unit << "\nNum Minibatch-size: " << options.batchsize
            << "\nNum epoch: " << options.epoch << "\n"
            << rule << std::endl;
}

torch::Tensor accuracy(const torch::Tensor& output, const torch::Tensor& target) {
  return (output.argmax(1) == target).to(torch::kFloat32).mean();
}

std::unique_ptr<mn::Evaluator> make_evaluator(const MnistOptions& options, const mn::jobs::MnistData& data, Mlp model,
                                              const std::shared_ptr<mn::Communicator>& comm) {
  const mn::LoaderOptions loading{.batchsize = options.batchsize, .shuffle = false, .device = comm->device()};
  auto evaluate_batch = [model, precision = options.precision, device = comm->device()](const mn::Batch& batch,
                                                                                        mn::Summary& report) mutable {
    const AutocastScope autocast(precision, device);
    const auto output = model->forward(batch.data);
    report.add("loss", torch::nn::functional::cross_entropy(output, batch.target).item<double>(), batch.samples);
    report.add("accuracy", accuracy(output, batch.target).item<double>(), batch.samples);
  };
  auto local = mn::create_evaluator(std::make_shared<mn::DataLoader>(data.val, loading), model.ptr(), evaluate_batch,
                                    mn::jobs::validation_batches(options));
  return mn::create_multi_node_evaluator(std::move(local), comm);
}

int train(mn::Job& job, int argc, char** argv) {
  MnistOptions options;
  mn::Options declared("usage: jobs/mnist [options]\nTrains a perceptron on MNIST, as ChainerMN's example does.");
  declare(declared, options);
  if (!mn::jobs::parse_options(declared, argc, argv, job.rank())) return 0;

  auto comm = mn::jobs::set_up(options);
  const auto seed = static_cast<std::uint64_t>(options.seed);
  const mn::jobs::MnistData data = mn::jobs::open_mnist(options.data, comm, seed);
  auto iterator = std::make_shared<mn::DataLoader>(
      data.train, mn::LoaderOptions{.batchsize = options.batchsize, .device = comm->device()});

  Mlp model(options.unit);
  mn::jobs::load_initial_weights(options, *model, *comm);
  model->to(comm->device());
  auto evaluator = make_evaluator(options, data, model, comm);
  if (!options.evaluate.empty()) return mn::jobs::evaluate_only(options, *model, *evaluator, *comm);
  const mn::OptimizerOptions how = mn::jobs::optimizer_options(options, *comm);
  const double rate = options.lr > 0 ? options.lr : mn::jobs::default_rate(options.optimizer);
  const auto optimizer = mn::jobs::create_optimizer(options, rate, *model, comm, how);

  auto compute_loss = [&](const mn::Batch& batch, mn::Summary& report) {
    const AutocastScope autocast(options.precision, comm->device());
    const auto output = model->forward(batch.data);
    report.add("accuracy", accuracy(output, batch.target).item<double>(), batch.samples);
    return torch::nn::functional::cross_entropy(output, batch.target);
  };
  mn::Trainer trainer(comm, optimizer, iterator, model.ptr(), compute_loss, mn::jobs::trainer_options(options, how));
  mn::jobs::write_config(declared, options.out, *comm);
  const auto reports = mn::jobs::add_reports(trainer, options, std::move(evaluator), mn::jobs::report_period(options));
  if (!options.resume.empty()) trainer.resume(options.resume);

  if (comm->rank() == 0) print_banner(options, *comm);
  const int status = trainer.run();
  if (status == 0) mn::jobs::save_weights(trainer, reports);
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job& job) { return train(job, argc, argv); });
}
