// A mixture of experts in parallel: each rank holds a slice of the experts, and mn::alltoall() brings each sample to
// the rank of its expert and back. Router and head are the same on all ranks.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

constexpr std::int64_t kExperts = 12, kWidth = 16;

struct Moe : torch::nn::Module {
  explicit Moe(std::shared_ptr<mn::Communicator> ranks) : comm(std::move(ranks)), slice(kExperts / comm->size()) {
    for (std::int64_t e = 0; e < kExperts; ++e) {  // every rank makes all, and keeps its slice
      torch::nn::Linear made(kWidth, kWidth);
      if (e / slice == comm->rank()) experts.push_back(made);
    }
  }
  torch::Tensor forward(const torch::Tensor& input) {
    const auto x = torch::relu(in(input));
    const auto [weight, expert] = torch::softmax(router(x), 1).max(1);
    std::vector<torch::Tensor> rows, samples, choices, results;
    for (int r = 0; r < comm->size(); ++r) {
      rows.push_back(expert.floor_divide(slice).eq(r).nonzero().squeeze(1));
      samples.push_back(x.index_select(0, rows.back()));
      choices.push_back(expert.index_select(0, rows.back()));
    }
    const auto received = mn::alltoall(comm, samples), chosen = mn::alltoall_tensors(*comm, choices);
    for (std::size_t r = 0; r < received.size(); ++r) results.push_back(compute(received[r], chosen[r]));
    const auto back = torch::cat(mn::alltoall(comm, results));
    return head(x + torch::zeros_like(x).index_copy(0, torch::cat(rows), back) * weight.unsqueeze(1));
  }
  torch::Tensor compute(const torch::Tensor& x, const torch::Tensor& expert) {
    auto result = torch::zeros_like(x);
    for (std::int64_t e = 0; e < slice; ++e) {
      const auto rows = expert.eq(comm->rank() * slice + e).nonzero().squeeze(1);
      result = result.index_copy(0, rows, torch::relu(experts[e](x.index_select(0, rows))));
    }
    return result;
  }
  std::shared_ptr<mn::Communicator> comm;
  std::int64_t slice;
  torch::nn::Linear in = register_module("in", torch::nn::Linear(8, kWidth));
  torch::nn::Linear router = register_module("router", torch::nn::Linear(kWidth, kExperts));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, 4));
  std::vector<torch::nn::Linear> experts;  // not registered: they are this rank's own
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    if (kExperts % comm->size() != 0) throw mn::UsageError("give 1, 2, 3, 4, 6 or 12 ranks");
    torch::manual_seed(1);
    const auto x = torch::randn({610, 8});
    const auto y = (x.slice(1, 0, 4) * x.slice(1, 4, 8)).argmax(1);
    Moe model(comm);
    std::vector<torch::Tensor> own;
    for (auto& expert : model.experts) {
      for (const auto& parameter : expert->parameters()) own.push_back(parameter);
    }
    const auto sgd = [](const std::vector<torch::Tensor>& p) { return std::make_unique<torch::optim::SGD>(p, 0.5); };
    const auto of_all = mn::create_multi_node_optimizer(sgd(model.parameters()), comm);
    // An expert's gradient comes from the losses of all ranks, but no other rank has the expert.
    const auto of_own = mn::create_multi_node_optimizer(sgd(own), comm->split(comm->rank(), 0), {.loss_ranks = comm});

    mn::TensorLoader loader({x, y}, comm, {.batchsize = 60 / comm->size(), .shuffle = true});
    double sums[2] = {};
    while (loader.epoch() < 10) {
      std::fill(std::begin(sums), std::end(sums), 0);
      while (auto batch = loader.next()) {
        of_all->zero_grad();
        of_own->zero_grad();
        const auto loss = F::cross_entropy(model.forward(batch->data), batch->target);
        of_all->scale_loss(loss, batch->samples).backward();
        of_all->step(batch->samples);
        of_own->step(batch->samples);
        sums[0] += loss.item<double>() * batch->samples;
        sums[1] += batch->samples;
      }
    }
    comm->allreduce(sums);
    if (comm->rank() == 0) std::cout << "loss " << sums[0] / sums[1] << std::endl;
    return 0;
  });
}
