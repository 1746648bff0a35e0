// Reinforcement learning without a dataset (REINFORCE, Williams 1992): an agent on a line learns to walk to 0. The
// ranks play parts of the same 60 episodes, whose random numbers follow from the step; the baseline is over all of
// them.
#include <nlohmann/json.hpp>
#include <torch/torch.h>

#include <mn/mn.hpp>

constexpr std::int64_t kEpisodes = 60, kMoves = 8;  // episodes of a step over all ranks, moves of an episode

int main(int argc, char** argv) {
  return mn::run_job(argc, argv, [](mn::Job&) {
    auto comm = mn::create_communicator("auto");
    torch::manual_seed(1);
    torch::nn::Sequential policy(torch::nn::Linear(1, 16), torch::nn::Tanh(), torch::nn::Linear(16, 2));
    policy->to(comm->device());
    std::shared_ptr<mn::MultiNodeOptimizer> optimizer =
        mn::create_multi_node_optimizer(std::make_unique<mn::FusedAdam>(policy->parameters(), 0.01), comm);

    // Where this rank's episodes begin, and a number for each move.
    auto episodes = mn::create_iterator(50, [&](std::int64_t epoch, std::int64_t step) {
      const auto seed = static_cast<std::uint64_t>(50 * epoch + step);
      const auto random = torch::rand({kEpisodes, 1 + kMoves}, at::detail::createCPUGenerator(seed));
      const auto own = random.tensor_split(comm->size(), 0)[comm->rank()].to(comm->device());
      return mn::Batch{own.narrow(1, 0, 1) * 4 - 2, own.narrow(1, 1, kMoves)};
    });
    const auto play = [&](const mn::Batch& batch, mn::Summary& report) {
      torch::Tensor position = batch.data, reward = torch::zeros_like(position), log_probability = reward;
      for (std::int64_t move = 0; move < kMoves; ++move) {
        const auto probabilities = policy->forward(position).softmax(1);
        const auto is_right = batch.target.narrow(1, move, 1) < probabilities.narrow(1, 1, 1);
        log_probability = log_probability + probabilities.gather(1, is_right.to(torch::kLong)).log();
        position = position + is_right.to(torch::kFloat) * 0.5 - 0.25;
        reward = reward - position.abs();
      }
      const auto baseline = mn::all_gather(comm, reward).mean();
      report.add("reward", reward.mean(), static_cast<double>(batch.samples));
      return -((reward - baseline) * log_probability).mean();
    };
    mn::Trainer trainer(comm, optimizer, episodes, policy.ptr(), play, {.epochs = 4, .out = "reinforce"});
    const auto& log = trainer.extend(std::make_unique<mn::extensions::LogReport>());
    if (const int status = trainer.run(); status != 0) return status;
    if (comm->rank() == 0) {
      std::cout << "reward " << log.entries().front().at("main/reward").get<double>() << "\nreward "
                << log.entries().back().at("main/reward").get<double>() << std::endl;
    }
    return 0;
  });
}
