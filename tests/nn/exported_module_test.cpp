// Exported models compute what Python computes: tests/support/export_models wrote both.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported_module.hpp>

#include "tests/nn/exported_files.hpp"
#include "tests/nn/python_results.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using test::expect_close;
using test::expect_same_as_python;
using test::Expected;
using test::load;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Optional;

std::vector<std::string> names_of(const torch::OrderedDict<std::string, at::Tensor>& tensors) { return tensors.keys(); }

TEST(ExportedModule, APerceptronIsPythons) { expect_same_as_python(*load("mlp"), "mlp"); }

TEST(ExportedModule, ParametersHaveTorchsNamesAndOrder) {
  EXPECT_THAT(names_of(load("mlp")->named_parameters()),
              ElementsAre("first.weight", "first.bias", "second.weight", "second.bias"));
  const auto conv = load("conv");
  EXPECT_THAT(names_of(conv->named_parameters()),
              ElementsAre("layers.0.weight", "layers.1.weight", "layers.1.bias", "layers.5.weight", "layers.5.bias",
                          "layers.6.weight", "layers.6.bias", "head.weight", "head.bias"));
  EXPECT_THAT(names_of(conv->named_buffers()),
              ElementsAre("layers.1.running_mean", "layers.1.running_var", "layers.1.num_batches_tracked",
                          "layers.6.running_mean", "layers.6.running_var", "layers.6.num_batches_tracked"));
  EXPECT_EQ(conv->named_buffers()["layers.1.num_batches_tracked"].scalar_type(), torch::kLong);
}

TEST(ExportedModule, AConvolutionalNetworkTrainsAsInPython) { expect_same_as_python(*load("conv"), "conv"); }

TEST(ExportedModule, BuffersThatTheGraphReturnsAreWritten) { expect_same_as_python(*load("conv_functional"), "conv"); }

TEST(ExportedModule, ADerivedEvaluationGraphIsPythons) {
  for (const char* name : {"conv", "conv_functional"}) {
    const auto model = load(name);
    model->eval();
    expect_same_as_python(*model, "conv_eval");
  }
}

TEST(ExportedModule, WhatForwardChangesIsPythons) {
  for (const char* name : {"state", "state_functional"}) {
    const auto model = load(name);
    model->eval();
    expect_same_as_python(*model, name, "state_eval");
    model->zero_grad();
    model->train();
    expect_same_as_python(*model, name, "state");
    const at::Tensor x = torch::ones({2, 4});
    (void)model->forward_all({x, torch::zeros({2}, torch::kLong)});
    EXPECT_TRUE(x.equal(torch::full({2, 4}, 2.0))) << name << " changes its argument";
  }
}

TEST(ExportedModule, ADerivedEvaluationGraphReadsNothingThatTrainingAloneMayChange) {
  for (const char* name : {"moving", "moving_functional"}) {
    const auto model = load(name);
    EXPECT_THAT(
        test::message_of<DataError>([&] { model->require_evaluation_graph(); }),
        AllOf(HasSubstr(name + std::string(": node \"")), HasSubstr("the buffer \"mean\", which an output depends on"),
              HasSubstr("export the model in evaluation mode, too"), Not(HasSubstr("\n"))));
    model->set_evaluation_graph({test::model_file("moving_eval.pt2"), "moving_eval"});
    model->eval();
    expect_same_as_python(*model, name, "moving_eval");
    model->zero_grad();
    model->train();
    expect_same_as_python(*model, name, "moving");
  }
}

/// The file as torch 2.9 writes it: only results of nodes have names.
std::string without_names(const std::string& name) {
  test::Records records = test::records_of(name);
  nlohmann::json document = parse_json(records.at("models/model.json"), name);
  for (auto& node : document.at("graph_module").at("graph").at("nodes")) node.erase("name");
  records["models/model.json"] = document.dump();
  return test::archive_of(records);
}

TEST(ExportedModule, AnAssignedBufferHasItsNewValueInTheNextStep) {
  for (const std::string& file : {test::model_file("assigned.pt2"), without_names("assigned")}) {
    ExportedModule model(file, "assigned");
    model.eval();
    expect_same_as_python(model, "assigned", "assigned_eval");
    model.zero_grad();
    model.train();
    expect_same_as_python(model, "assigned", "assigned");
  }
  EXPECT_THAT(test::message_of<DataError>([] { load("assigned_before")->require_evaluation_graph(); }),
              HasSubstr("makes the new value of the buffer \"scale\", which an output depends on"));
}

TEST(ExportedModule, AGivenEvaluationGraphChangesNothing) {
  const auto model = load("moving");
  model->set_evaluation_graph({test::model_file("moving.pt2"), "moving"});
  const at::Tensor before = model->named_buffers()["mean"].clone(), x = torch::randn({4, 3});
  model->eval();
  const at::Tensor evaluated = model->forward(x);
  EXPECT_TRUE(model->named_buffers()["mean"].equal(before));
  EXPECT_TRUE(model->forward(x).equal(evaluated));
  model->train();
  EXPECT_TRUE(model->forward(x).equal(evaluated)) << "what the graph writes, it reads";
  EXPECT_FALSE(model->named_buffers()["mean"].equal(before));
}

TEST(ExportedModule, AnEvaluationGraphRunsOnTheSameTensors) {
  const auto model = load("conv");
  model->set_evaluation_graph({test::model_file("conv_eval.pt2"), "conv_eval"});
  model->eval();
  expect_same_as_python(*model, "conv_eval");
  const at::Tensor images = torch::randn({2, 2, 6, 6});
  const at::Tensor before = model->forward(images);
  {
    const torch::NoGradGuard no_grad;
    model->named_parameters()["head.bias"].add_(1);
  }
  EXPECT_TRUE(model->forward(images).allclose(before + 1));
  EXPECT_THAT(test::message_of<DataError>([&] {
                load("mlp")->set_evaluation_graph({test::model_file("conv.pt2"), "conv"});
              }),
              AllOf(HasSubstr("conv is of another model: \"layers.0.weight\""), Not(HasSubstr("\n"))));
}

TEST(ExportedModule, ALanguageModelIsPythons) {
  const auto model = load("gpt");
  expect_same_as_python(*model, "gpt");
  const auto parameters = model->named_parameters();
  EXPECT_TRUE(parameters["tokens.weight"].is_same(parameters["head.weight"])) << "tied weights are one tensor";
}

TEST(ExportedModule, AllFormsAreRead) {
  const auto model = load("forms");
  expect_same_as_python(*model, "forms");
  EXPECT_FALSE(model->named_parameters()["frozen"].requires_grad());
  EXPECT_EQ(model->named_parameters()["turned"].strides(), at::IntArrayRef({1, 4}));
  EXPECT_FALSE(model->named_buffers().contains("offsets")) << "not part of the model's state";
}

TEST(ExportedModule, GraphsWithinTheGraphRunAsInPython) {
  expect_same_as_python(*load("flow"), "flow");
  const auto model = load("flow");
  expect_same_as_python(*model, "flow", "flow_other");  // the other branch, and as many turns as there are samples
  model->eval();
  EXPECT_EQ(model->forward(torch::randn({3, 5, 4})).sizes(), at::IntArrayRef({15, 4}));
  EXPECT_THAT(test::message_of<Error>([&] {
                (void)model->forward(torch::randn({0, 5, 4}));
              }),
              AllOf(HasSubstr("flow: node \"map_impl\""), HasSubstr("a dimension of no elements to go along")));
}

TEST(ExportedModule, ComplexTensorsAreRealOnesWithTheirParts) {
  const auto model = load("complex");
  expect_same_as_python(*model, "complex");
  const at::Tensor weight = model->named_parameters()["weight"];
  EXPECT_EQ(weight.sizes(), at::IntArrayRef({5, 3, 2}));
  EXPECT_EQ(weight.scalar_type(), torch::kFloat);
  EXPECT_EQ(model->named_buffers()["shift"].sizes(), at::IntArrayRef({3, 2}));
  model->to(torch::kDouble);
  EXPECT_EQ(model->forward(torch::randn({2, 8}, torch::kDouble)).scalar_type(), torch::kDouble);
}

TEST(ExportedModule, OutputsHaveTheNamesThatLeadToThem) {
  const auto names = [](const char* name) {
    std::vector<std::string> found;
    const auto model = load(name);
    for (const ExportedOutput& output : model->outputs()) found.push_back(output.name);
    return found;
  };
  EXPECT_THAT(names("outputs"),
              ElementsAre("pair.first", "pair.second.0", "pair.second.1", "by_order.b", "by_order.a"));
  EXPECT_THAT(names("flow"), ElementsAre("chosen", "walk.last", "walk.rows"));
  EXPECT_THAT(names("mlp"), ElementsAre("output"));
  EXPECT_THAT(load("outputs")->outputs()[0].sizes, Optional(ElementsAre(-1, 2)));
  EXPECT_FALSE(load("outputs")->outputs()[2].sizes.has_value()) << "None";

  const auto model = load("outputs");
  const at::Tensor x = torch::randn({4, 3});
  EXPECT_TRUE(model->forward({x}, "by_order.a").equal(model->forward(x) * 2));
  EXPECT_THAT(test::message_of<ArgumentError>([&] { (void)model->forward({x}, "a"); }),
              HasSubstr("no output \"a\", but pair.first, pair.second.0, pair.second.1, by_order.b, by_order.a"));
  const auto alone = load("mlp");
  EXPECT_THROW((void)alone->forward({x}, "logits"), ArgumentError);
  alone->eval();
  EXPECT_TRUE(alone->forward({x}, "logits").equal(alone->forward(x))) << "the only one of an evaluation graph";
}

TEST(ExportedModule, DropoutIsLibtorchs) {
  const auto model = load("dropout");
  const auto p = model->named_parameters();
  const at::Tensor x = torch::randn({5, 4});
  const auto hidden = [&] { return torch::linear(x, p["first.weight"], p["first.bias"]); };
  torch::manual_seed(3);
  const at::Tensor trained = model->forward(x);
  torch::manual_seed(3);
  const at::Tensor wanted = torch::linear(torch::dropout(hidden(), 0.5, true), p["second.weight"], p["second.bias"]);
  EXPECT_TRUE(trained.equal(wanted));
  model->eval();
  EXPECT_TRUE(model->forward(x).equal(torch::linear(hidden(), p["second.weight"], p["second.bias"])));
  model->train();
  EXPECT_FALSE(model->forward(x).equal(model->forward(x)));
}

TEST(ExportedModule, RandomNumbersWithoutASwitchNeedAnEvaluationGraph) {
  const auto model = load("random");
  EXPECT_EQ(model->forward(torch::randn({4, 3})).sizes(), at::IntArrayRef({4, 2}));
  EXPECT_THAT(test::message_of<DataError>([&] { model->require_evaluation_graph(); }),
              AllOf(HasSubstr("random: node \"bernoulli_\" (\"torch.ops.aten.bernoulli_.float\")"),
                    HasSubstr("export the model in evaluation mode, too"), Not(HasSubstr("\n"))));
  model->eval();
  EXPECT_THROW((void)model->forward(torch::randn({4, 3})), DataError);
  model->set_evaluation_graph({test::model_file("random_eval.pt2"), "random_eval"});
  const at::Tensor x = torch::randn({4, 3});
  EXPECT_TRUE(model->forward(x).equal(model->forward(x)));
}

TEST(ExportedModule, TellsWhetherItWasExportedForEvaluation) {
  EXPECT_TRUE(load("conv_eval")->is_exported_for_evaluation());
  for (const char* name : {"conv", "mlp", "gpt", "dropout", "frozen"}) {
    EXPECT_FALSE(load(name)->is_exported_for_evaluation()) << name;
  }
}

TEST(ExportedModule, InputsAreChecked) {
  const auto model = load("gpt");
  ASSERT_EQ(model->inputs().size(), 1U);
  EXPECT_EQ(model->inputs()[0].name, "tokens");
  EXPECT_EQ(model->inputs()[0].dtype, torch::kLong);
  EXPECT_THAT(model->inputs()[0].sizes, ElementsAre(-1, 6));
  const auto said = [&](const std::vector<at::Tensor>& inputs) {
    return test::message_of<ArgumentError>([&] { (void)model->forward_all(inputs); });
  };
  const at::Tensor good = torch::zeros({3, 6}, torch::kLong);
  EXPECT_EQ(said({good}), "");
  EXPECT_EQ(said({good.to(torch::kInt)}), "");
  EXPECT_EQ(said({torch::zeros({1, 6}, torch::kLong)}), "");
  EXPECT_THAT(said({torch::zeros({3, 5}, torch::kLong)}),
              HasSubstr("input \"tokens\" is Long [3, 5], but the model was exported for Long [up to 64, 6]"));
  EXPECT_THAT(said({torch::zeros({65, 6}, torch::kLong)}), HasSubstr("Long [65, 6]"));
  EXPECT_THAT(said({torch::zeros({3, 6})}), HasSubstr("Float [3, 6]"));
  EXPECT_THAT(said({good.flatten()}), HasSubstr("Long [18]"));
  EXPECT_THAT(said({}), HasSubstr("was not given"));
  EXPECT_THAT(said({at::Tensor()}), HasSubstr("is undefined"));
  EXPECT_THAT(said({good, good}), HasSubstr("takes 1 inputs, but was given 2"));
}

TEST(ExportedModule, AnOperatorThatFailsIsNamed) {
  EXPECT_THAT(
      test::message_of<Error>([] {
        (void)load("gpt")->forward(torch::full({3, 6}, 11));
      }),
      AllOf(HasSubstr("gpt: node \"embedding\" (\"torch.ops.aten.embedding.default\") failed: index out of range"),
            Not(HasSubstr("\n"))));
}

TEST(ExportedModule, OtherDtypesOfTheSameKindWork) {
  const auto model = load("mlp");
  const at::Tensor x = torch::randn({3, 3});
  const at::Tensor wanted = model->forward(x);
  model->to(torch::kDouble);
  EXPECT_TRUE(model->forward(x.to(torch::kDouble)).to(torch::kFloat).allclose(wanted));
}

TEST(ExportedModule, FilesAreReadByPath) {
  const test::TemporaryFolder folder;
  test::write_text(folder.path() / "model.pt2", test::model_file("mlp.pt2"));
  expect_same_as_python(*std::make_shared<ExportedModule>(folder.path() / "model.pt2"), "mlp");
  EXPECT_THROW(ExportedModule(folder.path() / "absent.pt2"), DataError);
}

}  // namespace
}  // namespace mn
