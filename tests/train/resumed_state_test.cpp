// What a resume takes from a checkpoint, and what does not match.
#include <array>
#include <cmath>
#include <limits>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/format/checkpoint_folder.hpp>
#include <mn/checkpoint/optimizer_archive.hpp>
#include <mn/checkpoint/optimizer_state.hpp>
#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/trainer/extensions/snapshot.hpp>

#include "tests/train/checkpoint_helpers.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using toy::on_rank_zero;
using toy::ToyJob;
using toy::ToyOptions;
using toy::world;

using ResumedStateTest = toy::CheckpointTest;

TEST_F(ResumedStateTest, AMismatchIsTheSameErrorOnAllRanks) {
  const std::string path = checkpoint_path(folder_.path(), 0).string();
  ToyJob(world(), options_).trainer->save(path);

  ToyOptions other_optimizer = options_;
  other_optimizer.sgd = true;
  EXPECT_THAT(resume_message(path, other_optimizer), HasSubstr("this job SGD"));
  ToyOptions other_model = options_;
  other_model.noise = true;
  EXPECT_THAT(resume_message(path, other_model), HasSubstr("running_mean"));
  EXPECT_THAT(resume_message(path + "0", options_), HasSubstr("there is no checkpoint"));
  EXPECT_THAT(resume_message(folder_.path().string(), options_),
              HasSubstr("is not a checkpoint, but holds some: name one, such as"));
  if (world()->rank() == 0) write_file(folder_.path() / "other", std::string(100, 'x'));
  EXPECT_THAT(resume_message((folder_.path() / "other").string(), options_), HasSubstr("not a checkpoint"));
}

TEST_F(ResumedStateTest, FusedAdamResumesTorchsAdam) {
  ToyJob job(world(), options_);
  EXPECT_EQ(job.trainer->run(), 0);
  const std::string path = (folder_.path() / "adam").string();
  job.trainer->save(path);
  ToyOptions longer = options_;
  longer.trainer.iterations += 3;
  const auto resumed = [&](bool fused) {
    longer.fused = fused;
    ToyJob next(world(), longer);
    EXPECT_TRUE(next.trainer->resume(path));
    EXPECT_EQ(next.trainer->run(), 0);
    return next.weights();
  };
  const at::Tensor expected = resumed(false);
  EXPECT_TRUE(torch::allclose(resumed(true), expected, 1e-5, 1e-6));
}

/// What a program keeps in JSON that its text does not hold.
TEST_F(ResumedStateTest, AnExtensionsStateMayHoldAnyValue) {
  struct Any final : Extension {
    json value;
    std::string name() const override { return "Any"; }
    json state() const override { return value; }
    void load_state(const json& state) override { value = state; }
  };
  const auto make = [&](json value) {
    auto job = std::make_unique<ToyJob>(world(), options_);
    auto any = std::make_unique<Any>();
    any->value = std::move(value);
    Any& added = job->trainer->extend(std::move(any));
    return std::pair(std::move(job), &added);
  };
  const double infinity = std::numeric_limits<double>::infinity();
  const json written = {{"best", infinity},
                        {"worst", -infinity},
                        {"none", std::nan("")},
                        {"blob", std::string("\xff\xfe\0\x01", 4)},
                        {"bytes", json::binary({1, 2, 255})},
                        {"list", {1, -2.5, std::nan(""), true, nullptr}},
                        {"own", {{"$cbor", "00"}}},
                        {"keys", {{"\xff", 1}}},
                        {"large", std::numeric_limits<std::uint64_t>::max()}};
  const std::string path = (folder_.path() / "c").string();
  auto [job, any] = make(written);
  job->trainer->save(path);
  auto [next, loaded] = make(nullptr);
  EXPECT_TRUE(next->trainer->resume(path));
  EXPECT_EQ(next->trainer->run(), 0);
  EXPECT_EQ(json::to_cbor(loaded->value), json::to_cbor(written));  // NaN is not equal to itself

  json deep = 1;
  for (int i = 0; i < 100; ++i) deep = json::array({deep});
  auto [other, unused] = make(deep);
  EXPECT_THAT(toy::message_of([&, &trainer = *other->trainer] { trainer.save(path); }),
              HasSubstr("the state of the extension Any holds more than"));
}

/// The same layers, registered in another order: each parameter gets its own momenta.
TEST_F(ResumedStateTest, OptimizerStateFollowsNames) {
  struct Net : torch::nn::Module {
    explicit Net(bool turned) {
      const auto add = [&](const char* name) { register_module(name, torch::nn::Linear(4, 4)); };
      for (const char* name : turned ? std::array{"b", "a"} : std::array{"a", "b"}) add(name);
    }
  };
  const auto trainer_of = [&](const std::shared_ptr<Net>& net) {
    const auto loss = [net](const Batch&, Summary&) {
      at::Tensor sum = torch::zeros({});
      for (const auto& item : net->named_parameters()) {
        sum = sum + item.value().pow(2).sum() * (item.key().starts_with('a') ? 1 : 3);
      }
      return sum;
    };
    return std::make_unique<Trainer>(
        world(),
        create_multi_node_optimizer(
            std::make_unique<torch::optim::Adam>(net->parameters(), torch::optim::AdamOptions(0.01)), world()),
        std::make_shared<toy::ToyIterator>(50, 4, *world()), net, loss,
        TrainerOptions{.iterations = 3, .out = folder_.path()});
  };
  const auto straight = std::make_shared<Net>(false), turned = std::make_shared<Net>(true);
  const auto first = trainer_of(straight), second = trainer_of(turned);
  EXPECT_EQ(first->run(), 0);
  first->save(folder_.path() / "c");
  EXPECT_TRUE(second->resume((folder_.path() / "c").string()));
  for (const auto& item : straight->named_parameters()) {
    const at::Tensor there = turned->named_parameters()[item.key()];
    EXPECT_TRUE(there.equal(item.value())) << item.key();
    const auto moment = [](Trainer& trainer, const at::Tensor& parameter) {
      auto& state = *trainer.optimizer().actual().state().at(parameter.unsafeGetTensorImpl());
      return static_cast<torch::optim::AdamParamState&>(state).exp_avg();
    };
    EXPECT_TRUE(moment(*second, there).equal(moment(*first, item.value()))) << item.key();
  }
}

/// libtorch's archive, in which parameters have no names.
TEST_F(ResumedStateTest, AnArchiveOfParametersInAnotherOrderIsAnError) {
  const toy::ToyNet net(false);
  const at::Tensor a = net.first->weight, b = net.second->weight;
  using torch::optim::LBFGS;
  LBFGS saved(std::vector<at::Tensor>{a, b}), turned(std::vector<at::Tensor>{b, a}), fewer(std::vector<at::Tensor>{a});
  const json groups = optimizer_groups(saved, net);
  const TensorForms forms = {{kArchive, {at::kByte, {10}}}};
  const auto said = [&](LBFGS& optimizer, const json& of) {
    return toy::message_of([&] { (void)OptimizerLoad(optimizer, net, forms, of); });
  };
  EXPECT_EQ(said(saved, groups), "no DataError");
  EXPECT_THAT(said(turned, groups),
              HasSubstr("LBFGS is stored by the order of its parameters, which is another now: in group 0 "
                        "first.weight stood where this job has second.weight"));
  EXPECT_THAT(said(fewer, groups), HasSubstr("second.weight, which the optimizer of this job does not have"));
}

TEST_F(ResumedStateTest, TheBytesOfAnOptimizersStateFollowFromItsKind) {
  const toy::ToyNet net(false);
  const auto bytes = [](auto optimizer) { return optimizer_state_bytes(optimizer) / sizeof(float); };
  constexpr std::uint64_t kNumbers = 6 * 5 + 5 + 5 * 3 + 3;
  using namespace torch::optim;
  EXPECT_EQ(bytes(Adam(net.parameters())), 2 * kNumbers);
  EXPECT_EQ(bytes(FusedAdam(net.parameters(), AdamOptions(0.1).amsgrad(true))), 3 * kNumbers);
  EXPECT_EQ(bytes(SGD(net.parameters(), 0.1)), 0U);
  EXPECT_EQ(bytes(SGD(net.parameters(), SGDOptions(0.1).momentum(0.9))), kNumbers);
  EXPECT_EQ(bytes(RMSprop(net.parameters(), RMSpropOptions(0.1).centered(true))), 2 * kNumbers);
  EXPECT_EQ(bytes(LBFGS(net.parameters())), 0U) << "not known";
}

}  // namespace
}  // namespace mn
