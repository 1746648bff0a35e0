// Segmentation: a small U-Net with batch normalization over the pixels of all ranks, and intersection over union.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

struct Unet : torch::nn::Module {
  explicit Unet(const std::shared_ptr<mn::Communicator>& comm) {
    const auto stage = [&](const char* name, std::int64_t in, std::int64_t out) {
      const mn::MultiNodeBatchNorm norm(comm, torch::nn::BatchNormOptions(out));
      const torch::nn::Conv2d convolution(torch::nn::Conv2dOptions(in, out, 3).padding(1).bias(false));
      return register_module(name, torch::nn::Sequential(convolution, norm, torch::nn::ReLU()));
    };
    down = stage("down", 1, 8), bottom = stage("bottom", 8, 16), up = stage("up", 24, 8);
  }
  torch::Tensor forward(const torch::Tensor& images) {  // [N, 1, H, W] → [N, H, W], above 0 inside
    const auto fine = down->forward(images), coarse = bottom->forward(torch::max_pool2d(fine, 2));
    return head(up->forward(torch::cat({fine, torch::upsample_nearest2d(coarse, {16, 16})}, 1))).squeeze(1);
  }
  torch::nn::Sequential down{nullptr}, bottom{nullptr}, up{nullptr};
  torch::nn::Conv2d head = register_module("head", torch::nn::Conv2d(8, 1, 1));
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    const auto off =
        (torch::arange(16) - torch::rand({301, 2, 1}) * 8 - 4).square();  // distance from a center, by axis
    const auto masks = (off.select(1, 0).unsqueeze(1) + off.select(1, 1).unsqueeze(2)).lt(14).to(torch::kFloat);
    const auto images = (masks + 0.5 * torch::randn_like(masks)).unsqueeze(1);
    const auto samples = [&](std::int64_t first, std::int64_t last) {
      return std::make_shared<mn::TensorLoader>(
          mn::TensorDataset(images.slice(0, first, last), masks.slice(0, first, last)), comm,
          mn::TensorLoaderOptions{.batchsize = 60 / comm->size(), .shuffle = true});
    };
    auto model = std::make_shared<Unet>(comm);
    model->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(model->parameters(), 0.02), comm);
    const auto loss_of = [&](const mn::Batch& batch, mn::Summary& report) {
      const auto scores = model->forward(batch.data), found = scores.gt(0).to(torch::kFloat);
      const double any = torch::max(found, batch.target).sum().item<double>();
      report.add("IoU", torch::min(found, batch.target).sum().item<double>() / any, any);  // weighs the pixels of both
      return F::binary_cross_entropy_with_logits(scores, batch.target);
    };
    // The fifth step would have one of the 241 samples, for one rank: it shares what is left with the fourth.
    mn::Trainer trainer(comm, optimizer, samples(0, 241), model, loss_of, {.epochs = 12, .out = "segmentation"});
    const int status = trainer.run();
    const auto evaluate = [&](const mn::Batch& batch, mn::Summary& report) {
      report.add("loss", loss_of(batch, report).item<double>(), batch.loss_weight());
    };
    auto evaluator = mn::create_evaluator(samples(241, 301), model, evaluate);
    const mn::Metrics found = mn::create_multi_node_evaluator(std::move(evaluator), comm)->evaluate();
    if (comm->rank() == 0) std::cout << "loss " << found.at("loss") << "\niou " << found.at("IoU") << std::endl;
    return status;
  });
}
