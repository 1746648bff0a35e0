// A mixture of experts in parallel: each rank holds a slice of the experts, and mn::RowExchange brings each sample to
// the rank of its expert and back. Router and head are the same on all ranks.
#include <torch/torch.h>

#include <mn/mn.hpp>

using torch::nn::functional::cross_entropy;

constexpr std::int64_t kExperts = 12, kWidth = 16;

struct Moe : torch::nn::Module {
  explicit Moe(std::shared_ptr<mn::Communicator> ranks) : comm(std::move(ranks)), slice(kExperts / comm->size()) {
    const auto all = torch::randn({kExperts, kWidth, kWidth}) / 4;  // every rank draws all, and keeps its slice
    experts = all.narrow(0, comm->rank() * slice, slice).clone().to(comm->device()).requires_grad_();
  }
  torch::Tensor forward(const torch::Tensor& input) {
    const auto x = torch::relu(in(input));
    const auto [weight, expert] = torch::softmax(router(x), 1).max(1);
    const mn::RowExchange exchange(comm, expert.floor_divide(slice));
    const auto samples = exchange.send(x), choices = exchange.send(expert.remainder(slice));
    const auto results = samples.unsqueeze(1).bmm(experts.index_select(0, choices)).relu().squeeze(1);
    return head(x + exchange.send_back(results) * weight.unsqueeze(1));
  }
  std::shared_ptr<mn::Communicator> comm;
  std::int64_t slice;     // number of experts of a rank
  torch::Tensor experts;  // [slice, kWidth, kWidth], not registered: they are this rank's own
  torch::nn::Linear in = register_module("in", torch::nn::Linear(8, kWidth));
  torch::nn::Linear router = register_module("router", torch::nn::Linear(kWidth, kExperts));
  torch::nn::Linear head = register_module("head", torch::nn::Linear(kWidth, 4));
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    if (kExperts % comm->size() != 0) throw mn::UsageError("give 1, 2, 3, 4, 6 or 12 ranks");
    torch::manual_seed(1);
    const auto x = torch::randn({610, 8}), y = (x.slice(1, 0, 4) * x.slice(1, 4, 8)).argmax(1);
    mn::TensorLoader loader({x, y}, comm, {.batchsize = 60 / comm->size(), .shuffle = true});
    Moe model(comm);
    model.to(comm->device());
    const auto sgd = [](const std::vector<torch::Tensor>& p) { return std::make_unique<torch::optim::SGD>(p, 0.5); };
    const auto of_all = mn::create_multi_node_optimizer(sgd(model.parameters()), comm);
    // An expert's gradient comes from the losses of all ranks, but no other rank has the expert.
    const auto of_own =
        mn::create_multi_node_optimizer(sgd({model.experts}), comm->split(comm->rank(), 0), {.loss_ranks = comm});
    while (loader.epoch() < 10) {
      while (auto batch = loader.next()) {
        of_all->zero_grad();
        of_own->zero_grad();
        const auto loss = cross_entropy(model.forward(batch->data), batch->target);
        of_all->scale_loss(loss, batch->samples).backward();
        of_all->step(batch->samples);
        of_own->step(batch->samples);
      }
    }
    const auto loss = cross_entropy(model.forward(x.to(comm->device())), y.to(comm->device()));  // on all ranks
    if (comm->rank() == 0) std::cout << "loss " << loss.item<double>() << std::endl;
    return 0;
  });
}
