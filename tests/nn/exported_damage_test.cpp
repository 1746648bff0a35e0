// Archives of exported models that are cut off, damaged, or not what mn knows: each is an error of one line.
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported_module.hpp>

#include "tests/nn/exported_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using nlohmann::json;
using test::Records;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

const char* const kGraph = "models/model.json";
const char* const kWeights = "data/weights/model_weights_config.json";

/// What the constructor says about such a file; "" if it takes it.
std::string complaint(const std::string& file) {
  return test::message_of<DataError>([&] { ExportedModule(file, "FILE"); });
}

/// The same for the model `name` after `change` of one of its JSON records.
template <class Change>
std::string complaint(const std::string& name, const std::string& record, Change change) {
  Records records = test::records_of(name);
  json document = parse_json(records.at(record), record);
  change(document);
  records[record] = document.dump();
  return complaint(test::archive_of(records));
}

json& node_of(json& document, std::size_t i) { return document.at("graph_module").at("graph").at("nodes").at(i); }

MATCHER(IsOneLine, "is one line that names the file") {
  return arg.starts_with("FILE") && arg.find('\n') == std::string::npos;
}

TEST(ExportedDamage, AnUnchangedArchiveIsTaken) {
  EXPECT_EQ(complaint(test::model_file("conv.pt2")), "");
  EXPECT_EQ(complaint(test::archive_of(test::records_of("conv"))), "");
  EXPECT_EQ(complaint("conv", kGraph, [](json&) {}), "");
}

TEST(ExportedDamage, PickledSampleInputsAreNotRead) {
  Records records = test::records_of("mlp");
  EXPECT_GT(records.at("data/sample_inputs/model.pt").size(), 0U);
  records["data/sample_inputs/model.pt"] = "no pickle";
  EXPECT_EQ(complaint(test::archive_of(records)), "");
}

TEST(ExportedDamage, TruncationIsFound) {
  const std::string whole = test::model_file("mlp.pt2");
  for (std::size_t length = 0; length < whole.size(); length += 1 + length / 97) {
    EXPECT_THAT(complaint(whole.substr(0, length)), AllOf(IsOneLine(), Not(HasSubstr("unknown")))) << length;
  }
  EXPECT_THAT(complaint("no archive"), AllOf(IsOneLine(), HasSubstr("is cut off, or is not what torch.export.save")));
}

TEST(ExportedDamage, OtherFilesOfPyTorchsAreNamed) {
  EXPECT_THAT(
      complaint(test::archive_of(Records{{"data.pkl", "x"}})),
      AllOf(IsOneLine(), HasSubstr("is what torch.save or torch.jit.save writes (.pt, .pth): export the model")));
  EXPECT_THAT(complaint("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
              AllOf(IsOneLine(), HasSubstr("is not what torch.export.save writes but a Git LFS pointer: fetch")));
}

TEST(ExportedDamage, AChangedByteIsFound) {
  const std::string whole = test::archive_of(test::records_of("mlp"));
  const std::size_t weights = whole.find("weight_0", whole.find("archive/data/weights/weight_0"));
  std::string changed = whole;
  changed[weights + 8] ^= 1;
  EXPECT_THAT(complaint(changed),
              AllOf(IsOneLine(), HasSubstr("the checksum of the record \"data/weights/weight_0\"")));
}

TEST(ExportedDamage, MillionsOfBracketsAreFound) {
  for (const char* record : {kGraph, kWeights}) {
    Records records = test::records_of("mlp");
    records[record] = std::string(1'000'000, '[') + std::string(1'000'000, ']');
    EXPECT_THAT(complaint(test::archive_of(records)), AllOf(IsOneLine(), HasSubstr("within each other at byte")));
    records[record] = R"({"graph_module": )" + std::string(1'000'000, '{');
    EXPECT_THAT(complaint(test::archive_of(records)), AllOf(IsOneLine(), HasSubstr("within each other at byte")));
  }
}

TEST(ExportedDamage, UnknownOperatorsAreNamed) {
  for (const char* target : {"torch.ops.aten.nosuch.default", "torch.ops.aten.linear.nosuch", "_operator.nosuch",
                             "torch.ops.higher_order.nosuch", "linear", "torch.ops.aten", ""}) {
    const auto rename = [&](json& document) { node_of(document, 2)["target"] = target; };
    EXPECT_THAT(complaint("mlp", kGraph, rename),
                AllOf(IsOneLine(), HasSubstr("node \"linear_1\" (\"" + std::string(target) + "\")"),
                      HasSubstr("has an operator that this libtorch does not have")));
  }
}

TEST(ExportedDamage, OperatorsOfPythonAloneComeWithAdvice) {
  for (const auto& [target, advice] : {std::pair("torch._functorch.predispatch._add_batch_dim", "run_decompositions()"),
                                       {"torch.ops.transformers.grouped_mm_fallback.default", "\"batched_mm\""}}) {
    const auto rename = [&, &name = target](json& document) { node_of(document, 2)["target"] = name; };
    EXPECT_THAT(complaint("mlp", kGraph, rename), AllOf(IsOneLine(), HasSubstr(target), HasSubstr(advice)));
  }
}

TEST(ExportedDamage, UnknownFormsAreNamed) {
  const auto give = [](const json& argument) {
    return complaint("mlp", kGraph, [&](json& document) { node_of(document, 2)["inputs"][1]["arg"] = argument; });
  };
  const auto names_node = AllOf(IsOneLine(), HasSubstr("node \"linear_1\" (\"torch.ops.aten.linear.default\")"));
  EXPECT_THAT(give(json::parse(R"({"as_operator": "torch.ops.aten.add"})")),
              AllOf(names_node, HasSubstr("an argument of the unknown form \"as_operator\"")));
  EXPECT_THAT(give(json::parse(R"({"as_complex": {"real": 1.0, "imag": "x"}})")), names_node);
  EXPECT_THAT(give(json::parse(R"({"as_string": "x"})")),
              AllOf(names_node, HasSubstr("\"weight\""), HasSubstr("where a Tensor is wanted")));
  EXPECT_THAT(give(json::parse(R"({"as_ints": [1, 2]})")),
              AllOf(names_node, HasSubstr("as_ints where a Tensor is wanted")));
  EXPECT_THAT(give(json::parse(R"({"as_scalar_type": 99})")), AllOf(names_node, HasSubstr("the unknown dtype 99")));
  EXPECT_THAT(give(json::parse(R"({"as_tensor": {"name": "nosuch"}})")),
              AllOf(names_node, HasSubstr("the value \"nosuch\", which nothing before it makes")));
  EXPECT_THAT(give(json::parse(R"({"as_tensor": {"name": "linear_1"}})")),
              AllOf(names_node, HasSubstr("nothing before it makes")));
  EXPECT_THAT(give(json::parse(R"({"as_tensor": 7})")),
              AllOf(names_node, HasSubstr("does not have the expected form")));
  EXPECT_THAT(give(json::array()), AllOf(names_node, HasSubstr("a union that is not of one form")));
}

TEST(ExportedDamage, ArgumentsOfAnotherSchemaAreNamed) {
  EXPECT_THAT(complaint("mlp", kGraph, [](json& document) { node_of(document, 0)["inputs"][1]["name"] = "mass"; }),
              AllOf(IsOneLine(), HasSubstr("node \"linear\""), HasSubstr("no argument \"weight\"")));
  EXPECT_THAT(complaint("mlp", kGraph, [](json& document) { node_of(document, 0)["inputs"][2]["name"] = "mass"; }),
              AllOf(IsOneLine(), HasSubstr("the argument \"mass\", which the operator does not have")));
}

TEST(ExportedDamage, GraphsWithinTheGraphAreChecked) {
  const auto change = [](const char* target, const auto& change_node) {
    return complaint("flow", kGraph, [&](json& document) {
      for (json& node : document.at("graph_module").at("graph").at("nodes")) {
        if (node.at("target").get<std::string>().ends_with(target)) change_node(node);
      }
    });
  };
  EXPECT_EQ(change(".cond", [](json&) {}), "");
  const auto drop = [](json& node) { node["inputs"].erase(node["inputs"].size() - 1); };
  for (const char* target : {".cond", ".while_loop", ".map_impl", ".scan"}) {
    EXPECT_THAT(change(target, drop),
                AllOf(IsOneLine(), HasSubstr(target), HasSubstr("another number of graphs or operands")))
        << target;
  }
  EXPECT_THAT(change(".cond", [](json& node) { node["inputs"].erase(1); }),
              AllOf(IsOneLine(), HasSubstr("another number of graphs or operands")));
  const auto graph = [](json& node) -> json& { return node["inputs"][1]["arg"]["as_graph"]["graph"]; };
  EXPECT_THAT(change(".cond", [&](json& node) { graph(node)["inputs"].erase(0); }),
              AllOf(IsOneLine(), HasSubstr("a graph within it that takes other values")));
  EXPECT_THAT(change(".cond", [&](json& node) { graph(node)["nodes"][0]["target"] = "torch.ops.aten.linexr.default"; }),
              AllOf(IsOneLine(), HasSubstr("torch.ops.aten.linexr.default")));
  EXPECT_THAT(change(".cond", [&](json& node) { graph(node)["outputs"][0]["as_tensor"]["name"] = "nosuch"; }),
              AllOf(IsOneLine(), HasSubstr("\"nosuch\", which nothing before it makes")));
}

TEST(ExportedDamage, OutputsWithoutAFormAreNumbered) {
  const auto change = [](const json& form) {
    return complaint("conv", kGraph, [&](json& document) {
      document["graph_module"]["module_call_graph"][0]["signature"]["out_spec"] = form;
    });
  };
  EXPECT_EQ(change(R"([1, {"type": "builtins.tuple", "context": "null", "children_spec": []}])"), "");
  EXPECT_EQ(change(R"([1, {"type": "mine", "context": "{", "children_spec": [{"type": null}]}])"), "");
  for (const char* form : {"", "[1", "[]", "{}", R"([1, {"type": "mine"}])"}) {
    EXPECT_THAT(change(form), AllOf(IsOneLine(), HasSubstr("outputs"))) << form;
  }
  EXPECT_THAT(change(3), IsOneLine());
}

TEST(ExportedDamage, UnknownSignaturesAreNamed) {
  const auto signature = [](const char* specs, const char* kind, const char* other) {
    return complaint("conv_functional", kGraph, [&](json& document) {
      for (json& spec : document.at("graph_module").at("signature").at(specs)) {
        if (spec.contains(kind)) spec = {{other, spec.at(kind)}};
      }
    });
  };
  EXPECT_THAT(signature("input_specs", "parameter", "custom_obj"),
              AllOf(IsOneLine(), HasSubstr("an input of the unknown kind \"custom_obj\"")));
  EXPECT_THAT(signature("output_specs", "buffer_mutation", "gradient_to_parameter"),
              AllOf(IsOneLine(), HasSubstr("an output of the unknown kind \"gradient_to_parameter\"")));
  EXPECT_THAT(complaint("mlp", kGraph, [](json& document) { document["schema_version"]["major"] = 9; }),
              AllOf(IsOneLine(), HasSubstr("schema version 9")));
  EXPECT_THAT(complaint("mlp", kGraph, [](json& document) { document.erase("graph_module"); }),
              AllOf(IsOneLine(), HasSubstr("graph_module")));
  EXPECT_THAT(complaint("mlp", kGraph, [](json& document) { document = 3; }), IsOneLine());
}

TEST(ExportedDamage, MissingWeightsAreNamed) {
  EXPECT_THAT(complaint("mlp", kWeights, [](json& document) { document["config"].erase("second.bias"); }),
              AllOf(IsOneLine(), HasSubstr("lacks the tensor \"second.bias\"")));
  Records records = test::records_of("mlp");
  records.erase("data/weights/weight_3");
  EXPECT_THAT(complaint(test::archive_of(records)), AllOf(IsOneLine(), HasSubstr("\"data/weights/weight_3\"")));
  EXPECT_THAT(complaint("mlp", kWeights, [](json& document) { document["config"]["first.bias"]["use_pickle"] = true; }),
              AllOf(IsOneLine(), HasSubstr("a pickle for a tensor, which is never read")));
}

TEST(ExportedDamage, TensorsOfAnotherFormAreNamed) {
  const auto meta = [](const char* key, const json& value) {
    return complaint("mlp", kWeights,
                     [&](json& document) { document["config"]["first.weight"]["tensor_meta"][key] = value; });
  };
  const auto number = [](std::int64_t value) { return json{{"as_int", value}}; };
  const auto names_tensor = AllOf(IsOneLine(), HasSubstr("tensor \"first.weight\""));
  EXPECT_THAT(meta("dtype", 99), AllOf(names_tensor, HasSubstr("the unknown dtype 99")));
  EXPECT_THAT(meta("dtype", 8), AllOf(names_tensor, HasSubstr("of dtype Double has other elements than the 60 bytes")));
  EXPECT_THAT(meta("sizes", json::array({number(6), number(3)})), names_tensor);
  EXPECT_THAT(meta("sizes", json::array({number(5)})), names_tensor);
  EXPECT_THAT(meta("sizes", json::array({number(std::int64_t{1} << 62), number(4)})), names_tensor);
  EXPECT_THAT(meta("sizes", json::array({number(-5), number(-3)})), names_tensor);
  EXPECT_THAT(meta("strides", json::array({number(std::int64_t{1} << 62), number(1)})), names_tensor);
  EXPECT_THAT(meta("strides", json::array({number(-3), number(1)})), names_tensor);
  EXPECT_THAT(meta("storage_offset", number(1)), names_tensor);
  EXPECT_THAT(meta("storage_offset", number(-1)), names_tensor);
  EXPECT_THAT(meta("sizes", json::parse(R"([{"as_expr": {"expr_str": "s0"}}])")), IsOneLine());
}

TEST(ExportedDamage, ImpossibleNamesAreNamed) {
  for (const char* name : {"", ".", "a..b", "first.weight"}) {
    const auto rename = [&](json& document) {
      document.at("graph_module").at("signature").at("input_specs").at(1).at("parameter")["parameter_name"] = name;
    };
    Records records = test::records_of("mlp");
    json graph = parse_json(records.at(kGraph), kGraph), weights = parse_json(records.at(kWeights), kWeights);
    rename(graph);
    weights["config"][name] = weights["config"]["first.bias"];
    records[kGraph] = graph.dump();
    records[kWeights] = weights.dump();
    EXPECT_THAT(complaint(test::archive_of(records)), AllOf(IsOneLine(), HasSubstr("can't be a parameter's"))) << name;
  }
}

TEST(ExportedDamage, NoChangeOfTheArchiveDoesWorseThanAComplaint) {
  const std::string whole = test::model_file("mlp.pt2");
  std::mt19937 random(5);
  for (int round = 0; round < 2000; ++round) {
    std::string changed = whole;
    for (int i = 0; i < 3; ++i) changed[changed.size() - 1 - random() % 2500] = static_cast<char>(random());
    const std::string said = complaint(changed);
    EXPECT_TRUE(said.empty() || said.starts_with("FILE")) << said;
  }
}

TEST(ExportedDamage, NoChangeOfTheGraphDoesWorseThanAComplaint) {
  const Records records = test::records_of("conv_functional");
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    for (const char* record : {kGraph, kWeights}) {
      Records changed = records;
      std::string& text = changed[record];
      const std::string digits = "0123456789\"{}[],:-tfn";
      for (int i = 0; i < 2; ++i) text[random() % text.size()] = digits[random() % digits.size()];
      EXPECT_THAT(complaint(test::archive_of(changed)), Not(HasSubstr("\n")));
    }
  }
}

}  // namespace
}  // namespace mn
