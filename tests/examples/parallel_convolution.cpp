// A convolution whose output channels are divided among the ranks, as in ChainerMN's parallel convolution, on images of
// CIFAR's shape. All ranks see the same minibatch.
#include <torch/torch.h>

#include <mn/mn.hpp>

namespace F = torch::nn::functional;

struct ParallelConv : torch::nn::Module {
  ParallelConv(std::shared_ptr<mn::Communicator> ranks, std::int64_t in, std::int64_t out) : comm(std::move(ranks)) {
    torch::nn::Conv2d all(torch::nn::Conv2dOptions(in, out, 3).padding(1));  // every rank draws all, and keeps a slice
    const std::int64_t each = out / comm->size();
    const auto slice = [&](const torch::Tensor& whole) {
      return whole.detach().narrow(0, comm->rank() * each, each).clone().to(comm->device()).requires_grad_();
    };
    weight = slice(all->weight);
    bias = slice(all->bias);
  }
  torch::Tensor forward(const torch::Tensor& x) {
    const auto own = F::conv2d(x, weight, F::Conv2dFuncOptions().bias(bias).padding(1));
    return mn::all_gather(comm, own.transpose(0, 1)).transpose(0, 1);  // all_gather() joins the first dimension
  }
  std::shared_ptr<mn::Communicator> comm;
  torch::Tensor weight, bias;  // not registered, because they are this rank's own
};

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto"), alone = comm->split(comm->rank(), 0);
    if (12 % comm->size() != 0) throw mn::UsageError("give 1, 2, 3, 4, 6 or 12 ranks");
    torch::manual_seed(1);
    const auto y = torch::arange(96) % 3;  // a class has one bright color
    const auto x = torch::randn({96, 3, 32, 32}) + 0.5 * torch::one_hot(y, 3).view({96, 3, 1, 1});
    ParallelConv first(comm, 3, 12), second(comm, 12, 12);
    torch::nn::Linear head(12, 3);
    head->to(comm->device());
    const auto sgd = [](const std::vector<torch::Tensor>& p) { return std::make_unique<torch::optim::SGD>(p, 0.2); };
    const auto of_all = mn::create_multi_node_optimizer(sgd(head->parameters()), comm);
    // all_gather() adds up the gradients of all ranks' losses, of which loss_ranks takes the mean.
    const auto of_own = mn::create_multi_node_optimizer(sgd({first.weight, first.bias, second.weight, second.bias}),
                                                        alone, {.loss_ranks = comm});
    const auto loss_of = [&](const torch::Tensor& images, const torch::Tensor& classes) {
      const auto maps = torch::relu(second.forward(torch::relu(first.forward(images))));
      return F::cross_entropy(head(maps.mean({2, 3})), classes);
    };
    mn::TensorLoader loader({x, y}, alone, {.batchsize = 32, .shuffle = true});
    while (loader.epoch() < 12) {
      while (auto batch = loader.next()) {
        of_all->zero_grad();
        of_own->zero_grad();
        loss_of(batch->data, batch->target).backward();
        of_all->step();
        of_own->step();
      }
    }
    const auto loss = loss_of(x.to(comm->device()), y.to(comm->device()));  // collective
    if (comm->rank() == 0) std::cout << "loss " << loss.item<double>() << std::endl;
    return 0;
  });
}
