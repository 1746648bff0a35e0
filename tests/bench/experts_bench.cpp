// experts_bench [TOKENS WIDTH EXPERTS]: time of a MixtureOfExperts (forward and backward) whose experts are divided
// among the ranks, and of the same work without communication: each rank holds all experts, and keeps its tokens.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/job/job.hpp>
#include <mn/nn/mixture_of_experts.hpp>
#include <mn/tensor/tensor.hpp>

namespace {

double step_s(mn::MixtureOfExperts& layer, const torch::Tensor& input, mn::Communicator& comm) {
  comm.barrier();
  const auto begin = std::chrono::steady_clock::now();
  const auto mixed = layer(input);
  (mixed.output.square().mean() + 0.01 * mixed.balance_loss).backward();
  comm.barrier();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  mn::Job job(argc, argv);
  const auto comm = mn::create_communicator("auto"), alone = comm->split(comm->rank(), 0);
  const auto argument = [&](int i, std::int64_t standard) { return argc > i ? std::atoll(argv[i]) : standard; };
  const std::int64_t tokens = argument(1, 2048), width = argument(2, 256), experts = argument(3, 8);
  const mn::MixtureOfExpertsOptions form{.width = width, .hidden = 4 * width, .experts = experts};
  mn::MixtureOfExperts divided(comm, form), whole(alone, form);
  const auto input = torch::randn({tokens, width}).to(c10::Device(comm->device())).requires_grad_();
  std::vector<double> with, without;  // alternating, so that other load on the machine meets both
  for (int i = 0; i < 24; ++i) {
    const double apart = step_s(divided, input, *comm), together = step_s(whole, input, *comm);
    if (i < 4) continue;
    with.push_back(apart);
    without.push_back(together);
  }
  if (comm->rank() != 0) return 0;
  std::printf(
      "%d ranks, %lld tokens each, width %lld, %lld experts: %.2f ms; without communication %.2f ms; ratio %.2f\n",
      comm->size(), static_cast<long long>(tokens), static_cast<long long>(width), static_cast<long long>(experts),
      1e3 * median(with), 1e3 * median(without), median(without) / median(with));
  return 0;
}
