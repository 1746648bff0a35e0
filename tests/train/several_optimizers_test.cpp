#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/nn/collectives.hpp>
#include <mn/sharding/shard_pass.hpp>
#include <mn/trainer/extensions/learning_rate.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using toy::bytes_of;
using toy::same_on_all;
using toy::ToyIterator;
using toy::world;

/// Two networks that train each other, as a GAN's do.
struct Pair : torch::nn::Module {
  Pair() {
    torch::manual_seed(11);
    generator = register_module("generator", torch::nn::Linear(6, 4));
    critic = register_module("critic", torch::nn::Linear(4, 1));
  }
  torch::nn::Linear generator{nullptr}, critic{nullptr};
};

struct PairJob {
  std::shared_ptr<Pair> model = std::make_shared<Pair>();
  std::shared_ptr<MultiNodeOptimizer> generator, critic;
  std::unique_ptr<Trainer> trainer;

  PairJob(const std::shared_ptr<Communicator>& comm, std::int64_t batchsize, const TrainerOptions& options,
          bool overlap, Shard shard = Shard::kNone) {
    const OptimizerOptions how = {
        .overlap = overlap, .shard = {.what = shard, .unit_bytes = 0}, .deterministic = true, .bucket_bytes = 16};
    generator = create_multi_node_optimizer(
        std::make_unique<torch::optim::Adam>(model->generator->parameters(), torch::optim::AdamOptions(0.01)), comm,
        how);
    critic = create_multi_node_optimizer(
        std::make_unique<torch::optim::SGD>(model->critic->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9)),
        comm, how);
    const auto update = [this](const Batch& batch, Summary& report) { update_both(batch, report); };
    trainer = std::make_unique<Trainer>(comm, std::vector<NamedOptimizer>{{"generator", generator}, {"critic", critic}},
                                        std::make_shared<ToyIterator>(44, batchsize, *comm), model, update, options);
  }

  void update_both(const Batch& batch, Summary& report) {
    const bool any = batch.samples > 0;
    const auto samples = static_cast<double>(batch.samples);
    const auto target = batch.target.to(torch::kFloat).unsqueeze(1);
    const ShardPass pass(*model);
    critic->zero_grad();
    if (any) {
      const auto loss = (model->critic(model->generator(batch.data).detach()) - target).square().mean();
      loss.backward();
      report.add("critic/loss", loss.item<double>(), samples);
    }
    critic->step(batch.samples);
    generator->zero_grad();
    if (any) {
      const auto others = critic->no_sync();
      const auto loss = model->critic(model->generator(batch.data)).square().mean();
      loss.backward();
      report.add("generator/loss", loss.item<double>(), samples);
    }
    generator->step(batch.samples);
  }
};

std::string weights_after(const std::filesystem::path& out, std::int64_t iterations, std::int64_t stop, bool overlap,
                          Shard shard = Shard::kNone) {
  TrainerOptions options = {.iterations = stop > 0 ? stop : iterations, .out = out};
  auto job = std::make_unique<PairJob>(world(), 4, options, overlap, shard);
  EXPECT_EQ(job->trainer->run(), 0);
  if (stop > 0) {
    job->trainer->save(out / "saved");
    options.iterations = iterations;
    job = std::make_unique<PairJob>(world(), 4, options, overlap, shard);
    EXPECT_TRUE(job->trainer->resume((out / "saved").string()));
    EXPECT_EQ(job->trainer->run(), 0);
  }
  const WholeParameters parameters(*job->model);
  EXPECT_TRUE(same_on_all(bytes_of(job->model->parameters())));
  return bytes_of(job->model->parameters());
}

TEST(SeveralOptimizers, OverlapChangesNoBitAndAResumeNeither) {
  const toy::TestFolder folder(world());
  const std::string whole = weights_after(folder.path(), 20, 0, false);
  EXPECT_EQ(weights_after(folder.path(), 20, 0, true), whole);
  EXPECT_EQ(weights_after(folder.path(), 20, 7, false), whole);
  EXPECT_EQ(weights_after(folder.path(), 20, 7, true), whole);
}

TEST(SeveralOptimizers, ShardsChangeNoBitAndAResumeNeither) {
  const toy::TestFolder folder(world());
  const std::string whole = weights_after(folder.path(), 20, 0, false);
  for (const Shard shard : {Shard::kOptimizer, Shard::kGradients, Shard::kParameters}) {
    for (const int stop : {0, 7}) EXPECT_EQ(weights_after(folder.path(), 20, stop, false, shard), whole) << stop;
  }
}

TEST(SeveralOptimizers, TrainAsOneRankWithTheWholeMinibatchWould) {
  const toy::TestFolder folder(world());
  PairJob all(world(), 4, {.epochs = 3, .out = folder.path()}, true);
  ASSERT_EQ(all.trainer->run(), 0);
  const auto alone_comm = std::shared_ptr<Communicator>(world()->split(world()->rank(), 0));
  PairJob alone(alone_comm, 4 * world()->size(), {.epochs = 3, .out = folder.path() / std::to_string(world()->rank())},
                false);
  ASSERT_EQ(alone.trainer->run(), 0);
  for (std::size_t i = 0; i < all.model->parameters().size(); ++i) {
    EXPECT_TRUE(torch::allclose(all.model->parameters()[i], alone.model->parameters()[i], 1e-4, 1e-5)) << i;
  }
  const Metrics metrics = all.trainer->take_observation();
  EXPECT_EQ(metrics.count("main/critic/loss"), 1U);
  EXPECT_EQ(metrics.count("main/generator/loss"), 1U);
}

/// A loss of collective calls, weighed by the trunk's optimizer, trains the head's, too. Rank r has r + 1 samples, then
/// 2 (r + 1), then r + 1.
at::Tensor weights_of_two(const std::shared_ptr<Communicator>& comm, bool head_has_stepped,
                          std::optional<bool> announced_overlap) {
  torch::manual_seed(7);
  torch::nn::Linear trunk(6, 4), head(4, 1);
  const at::Tensor x = torch::randn({60, 6}), y = torch::randn({60, 1});
  const auto optimizer_of = [&](const torch::nn::Linear& layer) {
    return create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(layer->parameters(), 0.1), comm,
                                       {.overlap = announced_overlap.value_or(false)});
  };
  const auto of_trunk = optimizer_of(trunk), of_head = optimizer_of(head);
  if (head_has_stepped) of_head->step(5);  // so that a sample weighs less there
  std::int64_t first = 0;
  for (const std::int64_t scale : {1, 2, 1}) {
    const auto samples_to = [&](std::int64_t rank) { return scale * rank * (rank + 1) / 2; };
    const bool alone = comm->size() == 1;
    const std::int64_t all = samples_to(world()->size());
    const std::int64_t from = first + (alone ? 0 : samples_to(comm->rank()));
    const std::int64_t count = alone ? all : scale * (comm->rank() + 1);
    of_trunk->zero_grad();
    of_head->zero_grad();
    const at::Tensor features = torch::tanh(trunk->forward(x.narrow(0, from, count)));
    const at::Tensor center = all_reduce(comm, features.sum(0)) / all;
    const at::Tensor loss = (head->forward(features - center) - y.narrow(0, from, count)).square().mean();
    const at::Tensor scaled = of_trunk->scale_loss(loss, static_cast<double>(count));
    if (announced_overlap) {
      of_trunk->announce_step(static_cast<double>(count));
      of_head->announce_step(static_cast<double>(count));
    }
    scaled.backward();
    of_trunk->step(static_cast<double>(count));
    of_head->step(static_cast<double>(count));
    first += all;
  }
  return torch::cat({torch::nn::utils::parameters_to_vector(trunk->parameters()),
                     torch::nn::utils::parameters_to_vector(head->parameters())});
}

TEST(SeveralOptimizers, OneLossMayTrainTheParametersOfAll) {
  const auto alone = world()->split(world()->rank(), 0);
  for (const bool head_has_stepped : {false, true}) {
    const at::Tensor expected = weights_of_two(alone, head_has_stepped, {});
    for (const auto announced_overlap : {std::optional<bool>(), std::optional(false), std::optional(true)}) {
      const at::Tensor found = weights_of_two(world(), head_has_stepped, announced_overlap);
      EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-6)) << found - expected;
    }
  }
}

/// A loss of each of two layers, or of both, in a loop of one's own. Rank r has r + 1 samples in each of three steps.
template <class Step>
at::Tensor trained_by(const std::shared_ptr<Communicator>& comm, const Step& step) {
  torch::manual_seed(7);
  torch::nn::Linear first(6, 4), second(4, 1);
  const std::int64_t all = world()->size() * (world()->size() + 1) / 2;
  const at::Tensor data = torch::randn({3, all, 6});  // before the ranks draw different numbers
  const auto optimizer_of = [&](const torch::nn::Linear& layer) {
    return create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(layer->parameters(), 0.1), comm);
  };
  const auto of_first = optimizer_of(first), of_second = optimizer_of(second);
  const std::int64_t before = comm->rank() * (comm->rank() + 1) / 2, own = comm->size() == 1 ? all : comm->rank() + 1;
  for (const at::Tensor& x : data.unbind()) {
    step(first, second, *of_first, *of_second, x.narrow(0, comm->size() == 1 ? 0 : before, own),
         static_cast<double>(own));
  }
  return torch::cat({torch::nn::utils::parameters_to_vector(first->parameters()),
                     torch::nn::utils::parameters_to_vector(second->parameters())});
}

TEST(SeveralOptimizers, WeightsOfDroppedGradientsDoNotCount) {
  const auto alone = world()->split(world()->rank(), 0);
  for (const bool critic_weighs : {false, true}) {
    const auto step = [&](auto& generator, auto& critic, auto& of_generator, auto& of_critic, const at::Tensor& x,
                          double samples) {
      critic->zero_grad();  // the module's: the optimizer does not learn of it
      const at::Tensor loss = (critic(generator(x).detach()) - 1).square().mean();
      (critic_weighs ? of_critic.scale_loss(loss, samples) : loss).backward();
      of_critic.step(samples);
      generator->zero_grad();
      of_generator.scale_loss(critic(generator(x)).square().mean(), samples).backward();
      of_generator.step(samples);
    };
    const at::Tensor expected = trained_by(alone, step), found = trained_by(world(), step);
    EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-6)) << found - expected;
  }
}

TEST(SeveralOptimizers, SeveralWeighedLossesMayShareABackward) {
  const auto alone = world()->split(world()->rank(), 0);
  const auto step = [&](auto& first, auto& second, auto& of_first, auto& of_second, const at::Tensor& x,
                        double samples) {
    of_first.zero_grad();
    of_second.zero_grad();
    const at::Tensor y = second(torch::tanh(first(x)));
    (of_first.scale_loss(y.square().mean(), samples, 2) + of_first.scale_loss((y - 1).abs().mean(), samples, 2))
        .backward();
    of_first.step(2 * samples);
    of_second.step(2 * samples);
  };
  const at::Tensor expected = trained_by(alone, step), found = trained_by(world(), step);
  EXPECT_TRUE(torch::allclose(found, expected, 1e-4, 1e-6)) << found - expected;
}

TEST(SeveralOptimizers, LossesThatAreWeighedOtherwiseAreNamed) {
  const auto step = [&](auto& first, auto& second, auto& of_first, auto& of_second, const at::Tensor& x,
                        double samples) {
    of_first.zero_grad();
    of_second.zero_grad();
    of_first.scale_loss(second(first(x)).square().mean(), samples).backward();
    EXPECT_THAT([&] { of_second.step(); }, ThrowsMessage<ArgumentError>(HasSubstr("call step(samples)")));
    of_second.scale_loss(second(first(x)).square().mean(), samples, 2).backward();
    EXPECT_THAT([&] { of_second.step(2 * samples); },
                ThrowsMessage<ArgumentError>(HasSubstr("weighed by two optimizers")));
    of_first.zero_grad();
    of_second.zero_grad();
    throw std::runtime_error("once");  // from here on the second optimizer knows its samples
  };
  EXPECT_THROW(trained_by(world(), step), std::runtime_error);
}

/// From the first step on, in which samples count the same for all optimizers.
TEST(SeveralOptimizers, LossesOfTwoOptimizersInTurnAreAnError) {
  for (const bool together : {false, true}) {
    const auto step = [&](auto& first, auto& second, auto& of_first, auto& of_second, const at::Tensor& x, double) {
      const at::Tensor one = of_first.scale_loss(second(first(x)).square().mean(), 4);
      const at::Tensor two = of_second.scale_loss(second(x.narrow(1, 0, 4)).square().mean(), 4);
      together ? (one + two).backward() : (one.backward(), two.backward());
      of_second.step(8);
    };
    EXPECT_THAT([&] { (void)trained_by(world(), step); }, ThrowsMessage<ArgumentError>(HasSubstr("two optimizers")));
  }
}

TEST(SeveralOptimizers, EachMayHaveAScheduleOfItsOwn) {
  const toy::TestFolder folder(world());
  const auto train = [&](std::int64_t iterations, bool resume) {
    const PairJob job(world(), 4, {.iterations = iterations, .out = folder.path()}, false);
    const auto& log =
        job.trainer->extend(std::make_unique<extensions::LogReport>(), {.trigger = Interval(1, "iteration")});
    job.trainer->extend(std::make_unique<extensions::LearningRate>([](std::int64_t done) { return 8 - done; }));
    job.trainer->extend(
        std::make_unique<extensions::LearningRate>([](std::int64_t done) { return 1 + done; }, "critic"));
    job.trainer->extend(std::make_unique<extensions::Snapshot>());
    if (resume) {
      EXPECT_TRUE(job.trainer->resume("auto"));
    }
    EXPECT_EQ(job.trainer->run(), 0);
    return std::pair(log.last("lr"), log.last("lr/critic"));
  };
  EXPECT_EQ(train(2, false), std::pair(7.0, 2.0));
  EXPECT_EQ(train(4, true), std::pair(5.0, 4.0));
  const PairJob job(world(), 4, {.iterations = 1, .out = folder.path()}, false);
  job.trainer->extend(std::make_unique<extensions::LearningRate>([](std::int64_t) { return 1; }, "critics"));
  EXPECT_THAT([&] { (void)job.trainer->run(); },
              ThrowsMessage<ArgumentError>(HasSubstr("no optimizer named \"critics\": it has generator, critic")));
}

TEST(SeveralOptimizers, WrongArgumentsAreErrors) {
  const toy::TestFolder folder(world());
  const TrainerOptions options = {.iterations = 1, .out = folder.path()};
  const PairJob job(world(), 4, options, false);
  const auto trainer = [&](std::vector<NamedOptimizer> optimizers, TrainerOptions how) {
    return Trainer(world(), std::move(optimizers), std::make_shared<ToyIterator>(8, 2, *world()), job.model,
                   UpdateParameters([](const Batch&, Summary&) {}), std::move(how));
  };
  EXPECT_THROW(trainer({}, options), ArgumentError);
  EXPECT_THROW(trainer({{"a", job.critic}, {"a", job.generator}}, options), ArgumentError);
  EXPECT_THROW(trainer({{"a", nullptr}}, options), ArgumentError);
  EXPECT_THROW(trainer({{"a", job.critic}}, {.iterations = 1, .accumulate = 2, .out = folder.path()}), UsageError);
}

TEST(SeveralOptimizers, ACheckpointOfOthersIsRefusedInOneLine) {
  const toy::TestFolder folder(world());
  const toy::ToyJob one(world(), {.trainer = {.iterations = 1, .out = folder.path()}});
  one.trainer->save(folder.path() / "one");
  PairJob two(world(), 4, {.iterations = 1, .out = folder.path()}, false);
  EXPECT_THROW((void)two.trainer->resume((folder.path() / "one").string()), DataError);  // another model
  two.trainer->save(folder.path() / "fewer");
  toy::edit_checkpoint(folder.path() / "fewer", [](nlohmann::json& about) { about["optimizers"].erase("critic"); });
  EXPECT_THAT([&] { (void)two.trainer->resume((folder.path() / "fewer").string()); },
              ThrowsMessage<DataError>(HasSubstr("other optimizers: it has generator")));
}

}  // namespace
}  // namespace mn
