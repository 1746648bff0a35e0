// The training loop: its result, triggers, signals and errors.
#include <cmath>
#include <csignal>
#include <stdexcept>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/core/error.hpp>
#include <mn/core/exit_codes.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/tensor.hpp>
#include <mn/trainer/extensions/log_report.hpp>
#include <mn/trainer/extensions/snapshot.hpp>
#include <mn/trainer/triggers.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using toy::same_on_all;
using toy::TestFolder;
using toy::ToyJob;
using toy::world;

/// The lines of trainer.hpp's example.
TEST(TrainerTest, TheExampleOfItsHeaderTrainsAndResumes) {
  const TestFolder folder(world());
  const auto train = [&](std::int64_t epochs) {
    const auto comm = world();
    const auto net = std::make_shared<toy::ToyNet>(false);
    const auto iterator = std::make_shared<toy::ToyIterator>(50, 4, *comm);
    auto optimizer = mn::create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(net->parameters(), 0.1), comm);
    const auto loss = [net](const mn::Batch& batch, mn::Summary&) {
      return torch::nn::functional::cross_entropy(net->forward(batch.data), batch.target);
    };
    mn::Trainer trainer(comm, std::move(optimizer), iterator, net, loss, {.epochs = epochs, .out = folder.path()});
    trainer.extend(std::make_unique<mn::extensions::LogReport>());
    trainer.extend(std::make_unique<mn::extensions::Snapshot>());
    trainer.resume("auto");
    const std::int64_t begin = trainer.epoch();
    EXPECT_EQ(trainer.run(), 0);
    EXPECT_EQ(trainer.epoch(), epochs);
    return begin;
  };
  EXPECT_EQ(train(1), 0);
  EXPECT_EQ(train(2), 1);
}

TEST(TrainerTest, EqualsOnePlainProcessWithTheWholeBatch) {
  const TestFolder folder(world());
  constexpr std::int64_t kSize = 53;  // a last step in which ranks differ in their samples, for 2, 3 and 4 ranks
  const std::int64_t global_batch = 4 * world()->size();
  ToyJob job(world(), {.size = kSize, .sgd = true, .trainer = {.epochs = 2, .out = folder.path()}});
  EXPECT_EQ(job.model->first->weight.name(), "first.weight");
  Metrics observed;
  job.trainer->extend("take", {2, "epoch"}, [&](Trainer& trainer) { observed = trainer.take_observation(); });
  EXPECT_EQ(job.trainer->run(), 0);

  const auto alone = world()->split(world()->rank(), 0);  // every rank checks by itself
  const TestFolder own(alone);
  ToyJob plain(alone, {.size = kSize, .sgd = true, .trainer = {.epochs = 2, .out = own.path()}});
  toy::ToyIterator iterator(kSize, global_batch, *alone);
  torch::optim::SGD sgd(plain.model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
  double sum = 0;
  for (int epoch = 0; epoch < 2; ++epoch) {
    while (const auto batch = iterator.next()) {
      sgd.zero_grad();
      const at::Tensor loss = torch::nn::functional::cross_entropy(plain.model->forward(batch->data), batch->target);
      loss.backward();
      sgd.step();
      sum += loss.item<double>() * static_cast<double>(batch->samples);
    }
  }
  EXPECT_TRUE(torch::allclose(job.weights(), plain.weights(), 1e-5, 1e-6)) << job.weights() - plain.weights();
  EXPECT_NEAR(observed.at("main/loss"), sum / (2 * kSize), 1e-5);
  EXPECT_GT(observed.at("images_per_second"), 0);
  EXPECT_TRUE(same_on_all(std::to_string(observed.at("main/loss")) + std::to_string(observed.at("main/accuracy"))));
}

TEST(TrainerTest, RanksWithoutSamplesTakePartInTheStep) {
  const TestFolder folder(world());
  const std::int64_t size = 4 * world()->size() + 1;  // the last step has a sample on rank 0 alone
  ToyJob job(world(), {.size = size, .noise = true, .trainer = {.epochs = 2, .out = folder.path()}});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_EQ(job.trainer->iteration(), 4);
  EXPECT_TRUE(same_on_all(toy::bytes_of({job.weights()})));
}

TEST(TrainerTest, BroadcastsWhatTheOptimizerDoesNotHold) {
  const TestFolder folder(world());
  torch::manual_seed(world()->rank());
  const auto model = std::make_shared<toy::ToyNet>(true);
  model->running_mean.fill_(world()->rank() + 1);
  std::shared_ptr<MultiNodeOptimizer> optimizer =
      create_multi_node_optimizer(std::make_unique<torch::optim::SGD>(model->second->parameters(), 0.1), world());
  const Trainer trainer(world(), optimizer, std::make_shared<toy::ToyIterator>(8, 2, *world()), model,
                        [&](const Batch& batch, Summary&) { return model->forward(batch.data).sum(); },
                        {.epochs = 1, .out = folder.path()});
  EXPECT_TRUE(same_on_all(toy::bytes_of({model->first->weight})));
  EXPECT_TRUE(model->running_mean.equal(torch::ones({6})));
}

TEST(TrainerTest, ExtensionsRunByTriggerAndPriority) {
  const TestFolder folder(world());
  const std::int64_t size = 8 * world()->size();  // two iterations an epoch
  ToyJob job(world(), {.size = size, .trainer = {.epochs = 3, .out = folder.path()}});
  std::vector<std::string> events;
  const auto record = [&](const std::string& what) {
    return [&events, what](Trainer& trainer) { events.push_back(what + std::to_string(trainer.iteration())); };
  };
  class Early final : public Extension {
   public:
    explicit Early(std::vector<std::string>& events) : events_(events) {}
    std::string name() const override { return "early"; }
    void initialize(Trainer&) override { events_.push_back("begin"); }
    void run(Trainer& trainer) override { events_.push_back("early" + std::to_string(trainer.iteration())); }
    void finalize(Trainer&) override { events_.push_back("end"); }

   private:
    std::vector<std::string>& events_;
  };
  job.trainer->extend("epoch", {1, "epoch"}, record("epoch"));
  job.trainer->extend("third", {3, "iteration"}, record("third"));
  job.trainer->extend(std::make_unique<Early>(events), {.trigger = Interval(2, "epoch"), .priority = kPriorityWriter});
  EXPECT_THROW(job.trainer->extend("epoch", {1, "epoch"}, record("again")), ArgumentError);
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_THAT(events, ElementsAre("begin", "epoch2", "third3", "early4", "epoch4", "epoch6", "third6", "end"));
}

TEST(TrainerTest, AnExtensionsStateMayBeCollective) {
  class Collective final : public Extension {
   public:
    std::string name() const override { return "collective"; }
    nlohmann::json state() const override { return world()->allreduce_obj(1); }
    void load_state(const nlohmann::json& state) override { loaded = state.get<int>(); }
    int loaded = 0;
  };
  const TestFolder folder(world());
  const toy::ToyOptions options = {.trainer = {.iterations = 1, .out = folder.path()}};
  ToyJob job(world(), options);
  job.trainer->extend(std::make_unique<Collective>());
  EXPECT_EQ(job.trainer->run(), 0);
  job.trainer->save(folder.path() / "saved");
  ToyJob next(world(), options);
  const auto& extension = next.trainer->extend(std::make_unique<Collective>());
  next.trainer->resume((folder.path() / "saved").string());
  EXPECT_EQ(next.trainer->run(), 0);
  EXPECT_EQ(extension.loaded, world()->size());
}

/// Infinity, NaN and text that is not UTF-8 are not JSON's.
TEST(TrainerTest, AnExtensionsStateComesBackAsItWas) {
  class Kept final : public Extension {
   public:
    std::string name() const override { return "kept\xff"; }
    nlohmann::json state() const override {
      return {{"best", -INFINITY}, {"last", NAN}, {"random", "\xff\xfe\x01"}, {"seen", 3}};
    }
    void load_state(const nlohmann::json& state) override { loaded = state; }
    nlohmann::json loaded;
  };
  const TestFolder folder(world());
  const toy::ToyOptions options = {.trainer = {.iterations = 1, .out = folder.path()}};
  ToyJob job(world(), options);
  job.trainer->extend(std::make_unique<Kept>());
  job.trainer->save(folder.path() / "saved");
  ToyJob next(world(), options);
  const auto& extension = next.trainer->extend(std::make_unique<Kept>());
  next.trainer->resume((folder.path() / "saved").string());
  EXPECT_EQ(next.trainer->run(), 0);
  EXPECT_EQ(extension.loaded.at("best").get<double>(), -INFINITY);
  EXPECT_TRUE(std::isnan(extension.loaded.at("last").get<double>()));
  EXPECT_EQ(extension.loaded.at("random").get<std::string>(), "\xff\xfe\x01");
  EXPECT_EQ(extension.loaded.at("seen"), 3);
}

TEST(TrainerTest, AnErrorOfAnExtensionNamesIt) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 1, .out = folder.path()}});
  job.trainer->extend("mine", {1, "iteration"}, [](Trainer&) { throw std::out_of_range("no such element"); });
  EXPECT_THAT([&] { (void)job.trainer->run(); },
              testing::ThrowsMessage<Error>(HasSubstr("the extension \"mine\" failed: no such element")));
}

TEST(TrainerTest, StopsAtTheNumberOfIterations) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 5, .out = folder.path()}});
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_EQ(job.trainer->iteration(), 5);
  EXPECT_EQ(job.trainer->progress(), 1);
}

TEST(TrainerTest, RanksAgreeOnSeconds) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 60, .out = folder.path()}});
  std::vector<std::int64_t> ran_at;
  // Ranks differ in speed: if each used its own clock, barriers would mix with other collectives.
  job.trainer->extend("often", {0.002, "second"}, [&](Trainer& trainer) {
    ran_at.push_back(trainer.iteration());
    std::this_thread::sleep_for(std::chrono::milliseconds(trainer.communicator().rank()));
    trainer.communicator().barrier();
  });
  job.trainer->extend("never", {1000, "second"}, [&](Trainer&) { ran_at.push_back(-1); });
  EXPECT_EQ(job.trainer->run(), 0);
  EXPECT_FALSE(ran_at.empty());
  EXPECT_THAT(ran_at, testing::Not(testing::Contains(-1)));
  EXPECT_TRUE(same_on_all(nlohmann::json(ran_at).dump()));
}

TEST(TrainerTest, ASignalToOneRankEndsAllWithACheckpoint) {
  for (const int signal : {SIGUSR1, SIGUSR2, SIGHUP, SIGTERM}) {
    const TestFolder folder(world());
    const toy::ToyOptions options = {.trainer = {.epochs = 200, .out = folder.path(), .checkpoint_on_signal = true}};
    ToyJob job(world(), options);
    job.trainer->extend("kill", {1, "iteration"}, [&](Trainer& trainer) {
      const bool last = trainer.communicator().rank() == trainer.communicator().size() - 1;
      if (last && trainer.iteration() == 3) std::raise(signal);
    });
    EXPECT_EQ(job.trainer->run(), kExitRequeue);
    std::raise(signal);  // a scheduler's signal reaches some ranks later
    EXPECT_GE(job.trainer->iteration(), 3);
    EXPECT_TRUE(same_on_all(std::to_string(job.trainer->iteration())));
    EXPECT_TRUE(std::filesystem::exists(checkpoint_path(folder.path(), job.trainer->iteration())));

    ToyJob next(world(), options);
    EXPECT_TRUE(next.trainer->resume("auto"));
    EXPECT_EQ(next.trainer->iteration(), job.trainer->iteration());
    EXPECT_TRUE(next.weights().equal(job.weights()));
  }
}

/// The checkpoint after a signal is one of those that are kept.
TEST(TrainerTest, ASignalLeavesAsManyCheckpointsAsAreKept) {
  const TestFolder folder(world());
  ToyJob job(world(), {.trainer = {.iterations = 200, .out = folder.path(), .checkpoint_on_signal = true}});
  job.trainer->extend(std::make_unique<extensions::Snapshot>(2), {.trigger = Interval(2, "iteration")});
  bool is_raised = false;
  job.trainer->extend("signal", {1, "iteration"}, [&](Trainer& trainer) {
    if (trainer.iteration() < 6 || trainer.iteration() % 2 == 1 || std::exchange(is_raised, true)) return;
    if (world()->rank() == 0) std::raise(SIGUSR1);  // the next iteration, an odd one, is the last
  });
  EXPECT_EQ(job.trainer->run(), kExitRequeue);
  const auto last = checkpoint_path(folder.path(), job.trainer->iteration());
  EXPECT_THAT(find_checkpoints(folder.path()), ElementsAre(last, testing::_));
}

/// Where checkpoints go counts as much as the folder itself.
TEST(TrainerTest, AFolderOfCheckpointsThatCantBeWrittenIsFoundAtTheStart) {
  const TestFolder folder(world());
  if (world()->rank() == 0) write_file(folder.path() / "ckpt", "a file");
  world()->barrier();
  TrainerOptions options{.iterations = 2, .out = folder.path(), .checkpoint_on_signal = true};
  try {
    ToyJob(world(), {.trainer = options});
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), testing::AllOf(HasSubstr("ckpt can't be written"), HasSubstr("Not a directory")));
  }
  options.checkpoint_on_signal = false;
  ToyJob(world(), {.trainer = options});  // saves none
}

TEST(TrainerTest, ABufferThatCannotBeWrittenToIsNamed) {
  torch::nn::Linear net(2, 2);
  net->register_buffer("mask", torch::ones({1, 4}).expand({3, 4}));
  name_tensors(*net);
  try {
    world()->broadcast_data(*net);
    ADD_FAILURE() << "no error";
  } catch (const ArgumentError& error) {
    EXPECT_THAT(error.what(), HasSubstr("mask has elements that share memory"));
  }
}

TEST(TrainerTest, AnOutputFolderThatCantBeWrittenIsTheSameErrorOnAllRanks) {
  try {
    ToyJob job(world(), {.trainer = {.epochs = 1, .out = "/dev/null/result"}});
    ADD_FAILURE() << "no error";
  } catch (const UsageError& error) {
    EXPECT_THAT(error.what(), HasSubstr("/dev/null/result"));
    EXPECT_THAT(error.what(), HasSubstr("--out"));
  }
}

TEST(TrainerTest, TrainingNeedsAnEnd) {
  EXPECT_THROW(ToyJob(world(), {.trainer = {.out = "/tmp"}}), UsageError);
  EXPECT_THROW(ToyJob(world(), {.trainer = {.epochs = -1, .out = "/tmp"}}), UsageError);
}

}  // namespace
}  // namespace mn
