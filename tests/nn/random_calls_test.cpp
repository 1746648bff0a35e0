// Random programs of differentiable calls: collective calls with and without a root, messages, chain lists, and the
// steps of an optimizer with uneven weights. Each rank computes its part; one process that has the tensors of all ranks
// computes the same values, gradients and parameters.
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/nn/chain_list.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/nn/point_to_point.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/optimizer.hpp>

#include "tests/nn/on_devices.hpp"
#include "tests/nn/random_calls.hpp"

namespace mn {
namespace {

using Comm = std::shared_ptr<Communicator>;
using Tensors = std::vector<at::Tensor>;

constexpr int kSteps = 2, kWidth = 3;

/// A component of a chain list.
struct Squash : torch::nn::Module {
  at::Tensor forward(const at::Tensor& x) { return torch::tanh(x * 0.7); }
};

/// What a rank passes to a call: part i for rank dest.
at::Tensor part(const Call& call, const at::Tensor& x, int rank, int dest, int size) {
  const at::Tensor row = x.sum(0, /*keepdim=*/true) * (dest + 1);
  return row.expand({call.rows[static_cast<std::size_t>(rank * size + dest)], kWidth});
}
Tensors parts_for_all(const Call& call, const at::Tensor& x, int rank, int size) {
  Tensors parts;
  for (int dest = 0; dest < size; ++dest) parts.push_back(part(call, x, rank, dest, size));
  return parts;
}
/// reduce_scatter wants the same shapes on all ranks: those of rank 0.
Tensors parts_alike(const Call& call, const at::Tensor& x, int size) { return parts_for_all(call, x, 0, size); }

at::Tensor row_of(const at::Tensor& x) { return x.sum(0, /*keepdim=*/true); }

/// The rank's tensor after a call with the result `y`. The result is part of the loss whatever its size.
at::Tensor combined(const at::Tensor& h, const at::Tensor& y) { return h * 0.5 + torch::tanh(row_of(y)); }

/// The program on one rank of several.
class OnRanks {
 public:
  explicit OnRanks(const Program& program)
      : p_(program), comm_(test::comm_on_nodes(program.nodes)), rank_(comm_->rank()) {}

  [[nodiscard]] at::Tensor forward(at::Tensor h, const at::Tensor& weight) const {
    for (const Call& call : p_.calls) h = after(call, h, weight);
    return h;
  }
  [[nodiscard]] const Comm& comm() const { return comm_; }

 private:
  [[nodiscard]] at::Tensor after(const Call& call, const at::Tensor& h, const at::Tensor& weight) const {
    const bool is_constant = call.constant[static_cast<std::size_t>(rank_)];
    const at::Tensor x = is_constant ? h.detach() : h;
    const bool is_root = rank_ == call.root;
    switch (call.kind) {
      case kLayer:
        return torch::tanh(h.mm(weight));
      case kAllGather:
        return combined(h, all_gather(comm_, x));
      case kAllgather:
        return combined(h, torch::cat(allgather(comm_, x)));
      case kAllReduce:
        return combined(h, all_reduce(comm_, row_of(x)));
      case kReduceScatter:
        return combined(h, reduce_scatter(comm_, parts_alike(call, x, p_.size)));
      case kBroadcast:
        return combined(h, broadcast(comm_, is_root ? x : at::Tensor(), call.root));
      case kAlltoall:
        return combined(h, torch::cat(alltoall(comm_, parts_for_all(call, x, rank_, p_.size))));
      case kGather: {
        const Tensors all = gather(comm_, x, call.root);
        return is_root ? combined(h, torch::cat(all)) : pseudo_connect(all[0], h);
      }
      case kScatter: {
        const Tensors parts = is_root ? parts_for_all(call, x, rank_, p_.size) : Tensors();
        return combined(h, scatter(comm_, parts, call.root));
      }
      case kReduce: {
        const at::Tensor sum = reduce(comm_, row_of(x), call.root);
        return is_root ? combined(h, sum) : pseudo_connect(sum, h);
      }
      case kMessage:
        if (is_root) return pseudo_connect(send({x, row_of(x)}, comm_, call.peer), h);
        return rank_ == call.peer ? combined(h, torch::cat(recv_tuple(comm_, call.root, h))) : h;
      default:
        return after_chain(call, h, x);
    }
  }
  [[nodiscard]] at::Tensor after_chain(const Call& call, const at::Tensor& h, const at::Tensor& x) const {
    MultiNodeChainList list(comm_);
    const std::vector<int>& path = call.path;
    bool takes_part = false;
    for (std::size_t i = 0; i < path.size(); ++i) {
      if (path[i] != rank_) continue;
      takes_part = true;
      const auto ranks = [&](bool is_end, std::size_t k) {
        return is_end ? MultiNodeChainList::Ranks() : MultiNodeChainList::Ranks(path[k]);
      };
      list.add_link(std::make_shared<Squash>(), ranks(i == 0, i - 1), ranks(i + 1 == path.size(), i + 1));
    }
    if (!takes_part) return h;
    const at::Tensor y = list.forward(row_of(x));
    return rank_ == path.back() ? combined(h, y) : pseudo_connect(y, h);
  }

  const Program& p_;
  Comm comm_;
  int rank_;
};

/// The tensors of all ranks after a call, in one process.
Tensors after_in_one_process(const Program& p, const Call& call, const Tensors& all, const at::Tensor& weight) {
  Tensors x, results = all;
  for (std::size_t r = 0; r < all.size(); ++r) x.push_back(call.constant[r] ? all[r].detach() : all[r]);
  const auto root = static_cast<std::size_t>(call.root), peer = static_cast<std::size_t>(call.peer);
  Tensors rows;
  for (const at::Tensor& each : x) rows.push_back(row_of(each));
  const auto sent_to = [&](int dest, bool alike) {
    Tensors parts;
    for (int r = 0; r < p.size; ++r)
      parts.push_back(part(call, x[static_cast<std::size_t>(r)], alike ? 0 : r, dest, p.size));
    return parts;
  };
  at::Tensor value = rows[static_cast<std::size_t>(call.path[0])];
  for (std::size_t i = 0; i < call.path.size(); ++i) value = torch::tanh(value * 0.7);
  for (std::size_t r = 0; r < all.size(); ++r) {
    const int rank = static_cast<int>(r);
    const auto set = [&](const at::Tensor& y) { results[r] = combined(all[r], y); };
    switch (call.kind) {
      case kLayer:
        results[r] = torch::tanh(all[r].mm(weight));
        break;
      case kAllGather:
      case kAllgather:
        set(torch::cat(x));
        break;
      case kAllReduce:
        set(torch::stack(rows).sum(0));
        break;
      case kReduceScatter:
        set(torch::stack(sent_to(rank, true)).sum(0));
        break;
      case kBroadcast:
        set(x[root]);
        break;
      case kAlltoall:
        set(torch::cat(sent_to(rank, false)));
        break;
      case kGather:
        if (r == root) set(torch::cat(x));
        break;
      case kScatter:
        set(part(call, x[root], call.root, rank, p.size));
        break;
      case kReduce:
        if (r == root) set(torch::stack(rows).sum(0));
        break;
      case kMessage:
        if (r == peer) set(torch::cat({x[root], rows[root]}));
        break;
      default:
        if (rank == call.path.back()) set(value);
    }
  }
  return results;
}

at::Tensor loss_of(const at::Tensor& h, int rank) { return (h * (rank + 1)).sin().sum(); }

void compare(unsigned seed, int size, int rank) {
  Program p(seed, size);
  const OnRanks ranks(p);
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  const at::Tensor start = torch::randn({kWidth, kWidth}, p.dtype);
  const at::Tensor own = start.clone().requires_grad_(), whole = start.clone().requires_grad_();
  const auto optimizer =
      create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(Tensors{own}, torch::optim::SGDOptions(0.1)),
                                  ranks.comm(), {.overlap = p.overlaps});
  const double tolerance = p.dtype == at::kDouble ? 1e-9 : 1e-3;
  for (int step = 0; step < kSteps; ++step) {
    torch::manual_seed(static_cast<std::uint64_t>(seed) * kSteps + static_cast<std::uint64_t>(step));
    Tensors inputs;
    for (const int rows : p.rows) inputs.push_back(torch::randn({rows, kWidth}, p.dtype).requires_grad_());
    Tensors all;
    for (const at::Tensor& x : inputs) all.push_back(x.mm(whole));
    for (const Call& call : p.calls) all = after_in_one_process(p, call, all, whole);
    at::Tensor sum = torch::zeros({}, p.dtype), weights = torch::zeros({}, p.dtype);
    for (int r = 0; r < size; ++r) {
      const double weight = p.weighs ? p.weights[static_cast<std::size_t>(r)] : 1;
      sum = sum + loss_of(all[static_cast<std::size_t>(r)], r) * weight, weights += weight;
    }
    whole.mutable_grad().reset();
    (sum / weights).backward();

    const auto here = static_cast<std::size_t>(rank);
    const at::Tensor h = ranks.forward(inputs[here].detach().mm(own), own);
    EXPECT_TRUE(torch::allclose(h, all[here], tolerance, tolerance)) << "step " << step;
    optimizer->zero_grad();
    const auto weight = static_cast<double>(p.weights[here]);
    (p.weighs ? optimizer->scale_loss(loss_of(h, rank), weight) : loss_of(h, rank)).backward();
    p.weighs ? optimizer->step(weight) : optimizer->step();
    const at::NoGradGuard no_grad;
    whole.sub_(0.1 * whole.grad());
    EXPECT_TRUE(torch::allclose(own, whole, tolerance, tolerance)) << "step " << step << own << whole;
    whole.copy_(own);
  }
}

/// MN_RANDOM_PROGRAMS of them, from the seed MN_FIRST_PROGRAM on.
TEST(RandomCalls, EqualThoseOfOneProcess) {
  const auto number = [](const char* name, int otherwise) {
    const char* const text = std::getenv(name);
    return static_cast<unsigned>(text == nullptr ? otherwise : std::atoi(text));
  };
  const Comm& comm = test::comm_on_nodes(1);
  const unsigned first = number("MN_FIRST_PROGRAM", 1), count = number("MN_RANDOM_PROGRAMS", 40);
  for (unsigned seed = first; seed < first + count; ++seed) {
    SCOPED_TRACE("program " + std::to_string(seed));
    if (seed % 500 == 0 && comm->rank() == 0) std::cerr << "program " << seed << std::endl;
    compare(seed, comm->size(), comm->rank());
  }
}

}  // namespace
}  // namespace mn
