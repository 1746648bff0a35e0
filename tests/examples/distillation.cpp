// Distillation: a small network learns from a large one that Python has trained and exported.
// usage: example_distillation TEACHER.pt2
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [&](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    auto teacher = std::make_shared<mn::ExportedModule>(std::filesystem::path(argv[1]));
    teacher->to(comm->device());
    teacher->eval();

    torch::manual_seed(1);
    const auto points = torch::rand({3000, 2}) * 4 - 2;
    const auto rings = (points.norm(2, 1) * 1.5).to(torch::kLong).clamp_max(2);  // what the teacher was trained for
    const auto samples = [&](std::int64_t first, std::int64_t last) {
      return std::make_shared<mn::TensorLoader>(
          mn::TensorDataset(points.slice(0, first, last), rings.slice(0, first, last)), comm,
          mn::TensorLoaderOptions{.batchsize = 120 / comm->size(), .shuffle = true});
    };
    auto model = std::make_shared<torch::nn::SequentialImpl>(torch::nn::Linear(2, 12), torch::nn::ReLU(),
                                                             torch::nn::Linear(12, 3));
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);

    // Hinton et al., "Distilling the Knowledge in a Neural Network": softened scores alone, without a label.
    constexpr double kTemperature = 2;
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary& report) {
      torch::Tensor wanted;
      {
        const torch::NoGradGuard no_grad;
        wanted = teacher->forward(batch.data);
      }
      const auto scores = model->forward(batch.data);
      const auto right = [&](const torch::Tensor& s) { return s.argmax(1).eq(batch.target).to(torch::kFloat).mean(); };
      report.add("teacher", right(wanted).item<double>(), static_cast<double>(batch.samples));
      report.add("student", right(scores).item<double>(), static_cast<double>(batch.samples));
      return F::kl_div((scores / kTemperature).log_softmax(1), (wanted / kTemperature).softmax(1),
                       F::KLDivFuncOptions().reduction(torch::kBatchMean)) *
             (kTemperature * kTemperature);
    };
    mn::Trainer trainer(comm, optimizer, samples(0, 2401), model, loss_of, {.epochs = 20, .out = "distillation"});
    const int status = trainer.run();
    auto evaluate = [&](const mn::Batch& batch, mn::Summary& report) { (void)loss_of(batch, report); };
    const mn::Metrics found =
        mn::create_multi_node_evaluator(mn::create_evaluator(samples(2401, 3000), model, evaluate), comm)->evaluate();
    if (comm->rank() == 0)
      std::cout << "teacher " << found.at("teacher") << "\nstudent " << found.at("student") << '\n';
    return status;
  });
}
