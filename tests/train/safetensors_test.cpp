// Safetensors files: what is written, what is read back, what is rejected.
#include <cstring>
#include <random>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using nlohmann::json;
using testing::AllOf;
using testing::HasSubstr;
using toy::TestFolder;
using toy::ToyNet;
using toy::world;

std::string file_of(const std::string& header, const std::string& data) {
  const std::uint64_t bytes = header.size();
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + header + data;
}

/// The error of from_safetensors(); empty if there is none.
std::string complaint(const std::string& bytes) {
  try {
    static_cast<void>(from_safetensors(bytes, "FILE"));
  } catch (const DataError& error) {
    return error.what();
  }
  return "";
}

NamedTensors examples() {
  return {{"bytes", torch::arange(5, torch::kByte)},
          {"flags", torch::tensor({true, false, true})},
          {"half", torch::randn({2, 3}).to(torch::kHalf)},
          {"bfloat", torch::randn({7}).to(torch::kBFloat16)},
          {"double", torch::randn({2, 2}, torch::kDouble)},
          {"scalar", torch::tensor(42, torch::kLong)},
          {"empty", torch::empty({0, 4})},
          {"turned", torch::randn({3, 5}).t()},
          {"int", torch::arange(3, torch::kInt)},
          {"short", torch::arange(3, torch::kShort)},
          {"char", torch::arange(-2, 1, torch::kChar)},
          {"complex", torch::randn({2, 3}, torch::kComplexFloat)},
          {"conjugate", torch::randn({3}, torch::kComplexDouble).conj()}};
}

TEST(SafetensorsTest, ReadsBackEveryDtypeAndShape) {
  const NamedTensors written = examples();
  const NamedTensors read = from_safetensors(to_safetensors(written, {{"format", "pt"}}), "FILE");
  const std::map<std::string, at::Tensor> by_name(read.begin(), read.end());
  EXPECT_EQ(by_name.size(), written.size());
  for (const auto& [name, tensor] : written) {
    EXPECT_EQ(by_name.at(name).scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(by_name.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(by_name.at(name).equal(tensor)) << name;
  }
}

TEST(SafetensorsTest, DtypesHaveTheNamesOfTheFormat) {
  const std::pair<at::ScalarType, const char*> names[] = {
      {torch::kUInt16, "U16"},         {torch::kUInt32, "U32"},    {torch::kUInt64, "U64"},
      {torch::kHalf, "F16"},           {torch::kBFloat16, "BF16"}, {torch::kFloat8_e4m3fn, "F8_E4M3"},
      {torch::kFloat8_e5m2, "F8_E5M2"}};
  for (const auto& [dtype, name] : names) {
    const at::Tensor tensor = torch::arange(1, 6).to(dtype);
    const std::string file = to_safetensors({{"t", tensor}});
    EXPECT_THAT(file, HasSubstr("\"dtype\":\"" + std::string(name) + "\""));
    const at::Tensor read = from_safetensors(file, "FILE").front().second;
    EXPECT_EQ(read.scalar_type(), dtype);
    EXPECT_EQ(toy::bytes_of({read}), toy::bytes_of({tensor})) << name;
  }
}

TEST(SafetensorsTest, TheBytesAreThoseOfTheFormat) {
  const std::string bytes =
      to_safetensors({{"b", torch::tensor({1, 2}, torch::kByte)}, {"a", torch::tensor({1.0F})}}, {{"format", "pt"}});
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, bytes.data(), sizeof header_bytes);
  EXPECT_EQ(header_bytes % 8, 0U);
  EXPECT_EQ(json::parse(bytes.substr(8, header_bytes)), json::parse(R"({"__metadata__": {"format": "pt"},
                            "a": {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]},
                            "b": {"dtype": "U8", "shape": [2], "data_offsets": [4, 6]}})"));
  EXPECT_EQ(bytes.substr(8 + header_bytes), std::string("\0\0\x80\x3f\x01\x02", 6));
}

TEST(SafetensorsTest, EveryTruncationIsFound) {
  const std::string whole = to_safetensors(examples());
  for (std::size_t length = 0; length < whole.size(); ++length) {
    EXPECT_TRUE(complaint(whole.substr(0, length)).starts_with("FILE ")) << length;
  }
  EXPECT_THAT(complaint(whole + "x"), HasSubstr("bytes of data"));
}

TEST(SafetensorsTest, HeadersThatLieAreFound) {
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"t": {"dtype": ")" + dtype + R"(", "shape": )" + shape + R"(, "data_offsets": )" + offsets + "}}";
  };
  EXPECT_EQ(complaint(file_of(entry("F32", "[2]", "[0, 8]"), "12345678")), "");
  EXPECT_THAT(complaint(file_of(entry("F99", "[2]", "[0, 8]"), "12345678")), HasSubstr("unknown dtype \"F99\""));
  EXPECT_THAT(complaint(file_of(entry("F32", "[3]", "[0, 8]"), "12345678")), HasSubstr("which is not F32 [3]"));
  EXPECT_THAT(complaint(file_of(entry("F32", "[-2]", "[0, 8]"), "12345678")), HasSubstr("impossible shape"));
  EXPECT_THAT(complaint(file_of(entry("F32", "[4611686018427387905, 4]", "[0, 16]"), std::string(16, 'x'))),
              HasSubstr("impossible shape"));
  EXPECT_THAT(complaint(file_of(entry("F32", "[2]", "[8, 0]"), "12345678")), HasSubstr("beyond its end"));
  EXPECT_THAT(complaint(file_of(entry("F32", "[2]", "[4, 12]"), "123456789012")), HasSubstr("gap or an overlap"));
  EXPECT_THAT(complaint(file_of(entry("F32", "[2]", "[0, 8]"), "123456789")), HasSubstr("9 bytes of data"));
  EXPECT_THAT(complaint(file_of(entry("F32", "\"2\"", "[0, 8]"), "12345678")), HasSubstr("malformed entry"));
  EXPECT_THAT(complaint(file_of(R"({"t": 3})", "")), HasSubstr("malformed entry"));
  EXPECT_THAT(complaint(file_of("[]", "")), HasSubstr("not a JSON object"));
  EXPECT_THAT(complaint(file_of("{", "")), HasSubstr("no JSON at byte 1"));
  EXPECT_THAT(complaint("\xff\xff\xff\xff\xff\xff\xff\xff{}"), HasSubstr("not a safetensors file"));
}

TEST(SafetensorsTest, OtherFilesOfWeightsAreNamed) {
  EXPECT_THAT(complaint("PK\x03\x04..........."),
              AllOf(HasSubstr("FILE is a file of PyTorch's (.pt, .pth)"), HasSubstr("torch.load('FILE'")));
  EXPECT_THAT(complaint("\x80\x02\x8a\x0al\xfc\x9c\x46\xf9 j"), HasSubstr("FILE is a file of PyTorch's"));
  EXPECT_THAT(complaint(R"({"metadata": {"total_size": 9}, "weight_map": {"a": "model-00001-of-00002.safetensors"}})"),
              HasSubstr("FILE is the index of weights in several files: its name must end in .json"));
  EXPECT_THAT(complaint("version https://git-lfs.github.com/spec/v1\noid sha256:1\n"),
              HasSubstr("FILE is not a safetensors file but a Git LFS pointer: fetch"));
  // Lengths of headers that look like a pickle's and a gzip file's first bytes.
  for (const std::size_t bytes : {std::size_t{0x280}, std::size_t{0x8B1F}}) {
    EXPECT_EQ(complaint(file_of("{}" + std::string(bytes - 2, ' '), "")), "");
  }
}

TEST(SafetensorsTest, NoChangeOfTheHeaderDoesWorseThanAComplaint) {
  const std::string whole = to_safetensors(examples());
  std::mt19937 random(11);
  for (int round = 0; round < 3000; ++round) {
    std::string changed = whole;
    for (int i = 0; i < 3; ++i) changed[random() % 700] = static_cast<char>(random());
    const std::string said = complaint(changed);
    EXPECT_TRUE(said.empty() || said.starts_with("FILE ")) << said;
  }
}

TEST(SafetensorsTest, AnotherModelIsAnErrorThatCopiesNothing) {
  ToyNet net(true);
  const at::Tensor before = net.first->weight.detach().clone();
  const auto said = [&](const NamedTensors& tensors) -> std::string {
    try {
      copy_into(net, tensors, "FILE");
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  };
  NamedTensors tensors;
  for (const auto& [name, tensor] : named_tensors(net)) tensors.emplace_back(name, tensor.detach() + 1);
  NamedTensors changed = tensors;
  changed.pop_back();
  EXPECT_THAT(said(changed), HasSubstr("lacks \"running_mean\""));
  changed = tensors;
  changed.emplace_back("extra", torch::ones({1}));
  EXPECT_THAT(said(changed), HasSubstr("holds \"extra\""));
  for (auto& [name, tensor] : changed) name = "model." + name;
  EXPECT_THAT(said(changed), HasSubstr("\", but holds \"model."));
  changed = tensors;
  changed.back().second = torch::ones({7});
  EXPECT_THAT(said(changed), HasSubstr("\"running_mean\" is Float [7] there and Float [6]"));
  changed = tensors;
  changed.back().second = torch::ones({6}, torch::kLong);
  EXPECT_THAT(said(changed), HasSubstr("is Long [6] there and Float [6]"));
  EXPECT_TRUE(net.first->weight.equal(before));
  EXPECT_EQ(said(tensors), "");
  EXPECT_TRUE(net.first->weight.equal(before + 1));
}

/// Another number of classes, another layer, one layer less.
TEST(SafetensorsTest, WhatFitsIsLoadedAndTheRestIsNamed) {
  struct OtherNet : torch::nn::Module {
    torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 5));
    torch::nn::Linear second = register_module("second", torch::nn::Linear(5, 4));
    torch::nn::Linear third = register_module("third", torch::nn::Linear(4, 4));
  };
  const TestFolder folder(world());
  const auto path = folder.path() / "model.safetensors";
  torch::manual_seed(3);
  ToyNet net(true);
  save_model(path, net, *world());
  torch::manual_seed(10 + world()->rank());
  OtherNet other;
  torch::manual_seed(10);
  const OtherNet roots;
  const LoadReport report = load_matching(path, other, *world());
  EXPECT_THAT(report.loaded, testing::ElementsAre("first.weight", "first.bias"));
  EXPECT_THAT(report.other_form, testing::ElementsAre("second.weight", "second.bias"));
  EXPECT_THAT(report.missing, testing::ElementsAre("third.weight", "third.bias"));
  EXPECT_THAT(report.extra, testing::ElementsAre("running_mean"));
  EXPECT_EQ(to_string(report),
            "2 of the model's 6 tensors loaded; of another shape or dtype: second.weight, second.bias; missing in the "
            "file: third.weight, third.bias; only in the file: running_mean");
  EXPECT_TRUE(other.first->weight.equal(net.first->weight));
  EXPECT_TRUE(other.first->bias.equal(net.first->bias));
  EXPECT_TRUE(other.second->weight.equal(roots.second->weight));
  EXPECT_TRUE(other.third->bias.equal(roots.third->bias));
  torch::nn::Linear none(6, 5);
  EXPECT_THAT([&] { load_matching(path, *none, *world()); },
              testing::ThrowsMessage<DataError>(HasSubstr("no tensor fits")));
}

TEST(SafetensorsTest, SkippedLayersStayAsRankZeroHasThem) {
  struct OtherNet : torch::nn::Module {
    torch::nn::Linear first = register_module("first", torch::nn::Linear(6, 5));
    torch::nn::Linear second = register_module("second", torch::nn::Linear(5, 4));        // the file's has 3 outputs
    torch::nn::Linear secondary = register_module("secondary", torch::nn::Linear(2, 2));  // the file has none
  };
  const TestFolder folder(world());
  const auto path = folder.path() / "model.safetensors";
  torch::manual_seed(3);
  ToyNet net(false);
  save_model(path, net, *world());
  torch::manual_seed(10 + world()->rank());
  OtherNet other;
  torch::manual_seed(10);
  const OtherNet roots;
  load_model(path, other, *world(), {"second", "secondary.weight", "secondary.bias"});
  EXPECT_TRUE(other.first->weight.equal(net.first->weight));
  EXPECT_TRUE(other.second->weight.equal(roots.second->weight));
  EXPECT_TRUE(other.secondary->bias.equal(roots.secondary->bias));
  EXPECT_THAT([&] { load_model(path, other, *world(), {"second"}); },
              testing::ThrowsMessage<DataError>(HasSubstr("lacks \"secondary.weight\"")));
  EXPECT_THAT([&] { load_model(path, other, *world(), {"sec"}); },
              testing::ThrowsMessage<DataError>(HasSubstr("no layer or tensor \"sec\"")));
}

TEST(SafetensorsTest, WrappersNamesAndOtherFloatsAreAdapted) {
  const TestFolder folder(world());
  const auto path = folder.path() / "model.safetensors";
  torch::manual_seed(3);
  const ToyNet net(false);
  for (const std::string before : {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module.",
                                   "module._orig_mod.module.", "_fsdp_wrapped_module._orig_mod.module.", ""}) {
    NamedTensors tensors;
    for (const auto& item : net.named_parameters()) {
      std::string name = before + item.key();
      if (before.empty()) name.insert(name.find('.') + 1, "_orig_mod.module.");
      tensors.emplace_back(name, item.value().detach().to(torch::kBFloat16));
    }
    if (world()->rank() == 0) write_file(path, to_safetensors(tensors));
    world()->barrier();
    torch::manual_seed(10 + world()->rank());
    ToyNet loaded(false), matching(false);
    load_model(path, loaded, *world());
    EXPECT_EQ(load_matching(path, matching, *world()).loaded.size(), tensors.size());
    for (const auto& item : net.named_parameters()) {
      const at::Tensor expected = item.value().to(torch::kBFloat16).to(torch::kFloat);
      EXPECT_TRUE(loaded.named_parameters()[item.key()].equal(expected)) << before;
      EXPECT_TRUE(matching.named_parameters()[item.key()].equal(expected)) << before;
    }
    world()->barrier();
  }
}

TEST(SafetensorsTest, RankZeroSavesAndAllRanksLoad) {
  const TestFolder folder(world());
  const auto path = folder.path() / "model.safetensors";
  torch::manual_seed(10 + world()->rank());
  ToyNet net(true);
  net.running_mean.fill_(world()->rank() + 1);
  save_model(path, net, *world());
  ToyNet loaded(true);
  load_model(path, loaded, *world());
  torch::manual_seed(10);
  ToyNet roots(true);
  for (const auto& item : roots.named_parameters())
    EXPECT_TRUE(loaded.named_parameters()[item.key()].equal(item.value()));
  EXPECT_TRUE(loaded.running_mean.equal(torch::ones({6})));
  EXPECT_TRUE(load_safetensors(path).front().second.defined());
  EXPECT_THROW((void)load_safetensors(folder.path() / "absent"), Error);

  EXPECT_THROW(load_model(folder.path() / "absent", loaded, *world()), DataError);
  save_model(folder.path() / "new" / "folder" / "model", net, *world());
  EXPECT_TRUE(std::filesystem::exists(folder.path() / "new/folder/model"));
  EXPECT_THAT([&] { save_model(path / "model", loaded, *world()); },
              testing::ThrowsMessage<DataError>(HasSubstr(path.string() + "/")))
      << "below a file";
  ToyNet other(false);
  EXPECT_THROW(load_model(path, other, *world()), DataError);
}

}  // namespace
}  // namespace mn
