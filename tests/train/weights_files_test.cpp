// Weights from elsewhere: names with a prefix, transposed matrices, folders with an index, and tensors of other dtypes.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/checkpoint/safetensors.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>

#include "tests/train/toy.hpp"

namespace mn {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::ThrowsMessage;
using toy::TestFolder;
using toy::ToyNet;
using toy::world;

class WeightsFilesTest : public testing::Test {
 protected:
  WeightsFilesTest() {
    torch::manual_seed(3);
    net_ = std::make_unique<ToyNet>(false);
  }
  /// The network's tensors, with `prefix` before each name.
  [[nodiscard]] NamedTensors tensors(const std::string& prefix = "") const {
    NamedTensors named;
    for (const auto& item : net_->named_parameters()) named.emplace_back(prefix + item.key(), item.value().detach());
    return named;
  }
  /// Collective: rank 0 writes a file of the folder.
  void write(const std::string& name, const std::string& bytes) const {
    if (world()->rank() == 0) write_file(folder_.path() / name, bytes);
    world()->barrier();
  }
  /// Collective: loads into a network with other weights, and compares.
  void expect_loads(const std::string& name) const {
    torch::manual_seed(10 + world()->rank());
    ToyNet loaded(false), matching(false);
    load_model(folder_.path() / name, loaded, *world());
    EXPECT_EQ(load_matching(folder_.path() / name, matching, *world()).loaded.size(), 4U);
    for (const auto& item : net_->named_parameters()) {
      EXPECT_TRUE(loaded.named_parameters()[item.key()].equal(item.value())) << name << ": " << item.key();
      EXPECT_TRUE(matching.named_parameters()[item.key()].equal(item.value())) << name << ": " << item.key();
    }
    world()->barrier();
  }
  [[nodiscard]] std::string error_of(const std::string& name) const {
    try {
      ToyNet loaded(false);
      load_model(folder_.path() / name, loaded, *world());
    } catch (const DataError& error) {
      return error.what();
    }
    return "";
  }

  TestFolder folder_ = TestFolder(world());
  std::unique_ptr<ToyNet> net_;
};

TEST_F(WeightsFilesTest, ACommonPrefixIsRemoved) {
  for (const std::string prefix : {"backbone.", "model.net.", "module.encoder._orig_mod."}) {
    write("prefixed", to_safetensors(tensors(prefix)));
    expect_loads("prefixed");
  }
  // A name without the prefix is better than one behind it.
  NamedTensors both = tensors();
  for (const auto& [name, tensor] : tensors("old.")) both.emplace_back(name, tensor + 1);
  write("both", to_safetensors(both));
  ToyNet loaded(false);
  EXPECT_THAT(load_matching(folder_.path() / "both", loaded, *world()).extra, testing::SizeIs(4));
  EXPECT_TRUE(loaded.first->weight.equal(net_->first->weight));
  NamedTensors one = tensors("old.");  // all names have the prefix, and one also comes without it
  for (auto& [name, tensor] : one) tensor = tensor + 1;
  one.emplace_back("first.weight", net_->first->weight.detach());
  write("one", to_safetensors(one));
  EXPECT_THAT(load_matching(folder_.path() / "one", loaded, *world()).extra, ElementsAre("old.first.weight"));
  EXPECT_TRUE(loaded.first->weight.equal(net_->first->weight));
  NamedTensors two = tensors("student.");
  for (const auto& [name, tensor] : tensors("teacher.")) two.emplace_back(name, tensor);
  write("two", to_safetensors(two));
  EXPECT_THAT(error_of("two"), HasSubstr("it lacks \"first.weight\"")) << "which network is wanted is not known";
  NamedTensors more = tensors("backbone.");
  more.emplace_back("head.weight", torch::zeros({2}));
  write("more", to_safetensors(more));
  EXPECT_THAT(error_of("more"), HasSubstr("it holds \"head.weight\", which this one lacks"));
}

TEST_F(WeightsFilesTest, FoldersAreRead) {
  const NamedTensors all = tensors();
  const auto index_of = [&](const std::string& second) {
    nlohmann::json map;
    for (std::size_t i = 0; i < all.size(); ++i) map[all[i].first] = i < 3 ? "model-1.safetensors" : second;
    return nlohmann::json{{"metadata", {{"total_size", 9}}}, {"weight_map", map}}.dump();
  };
  write("model-1.safetensors", to_safetensors({all.begin(), all.begin() + 3}));
  write("model-2.safetensors", to_safetensors({all.begin() + 3, all.end()}));
  write("model.safetensors.index.json", index_of("model-2.safetensors"));
  expect_loads("");
  expect_loads("model.safetensors.index.json");
  EXPECT_TRUE(load_metadata(folder_.path(), *world()).empty());

  write("model.safetensors.index.json", index_of("model-1.safetensors"));
  EXPECT_THAT(error_of(""), AllOf(HasSubstr("model-1.safetensors lacks"), HasSubstr("which model.safetensors.index")));
  write("model.safetensors.index.json", index_of("model-3.safetensors"));
  EXPECT_THAT(error_of(""), HasSubstr("model-3.safetensors"));
  for (const char* elsewhere : {"../model-1.safetensors", "..", ".", "", "a\n/b"}) {
    write("model.safetensors.index.json", index_of(elsewhere));
    EXPECT_THAT(error_of(""), AllOf(HasSubstr("names a file elsewhere"), testing::Not(HasSubstr("\n")))) << elsewhere;
  }
  write("model.safetensors.index.json", "[]");
  EXPECT_THAT(error_of(""), HasSubstr("is not an index of weights"));
  for (const char* bad : {"{\"weight_map\": 5}", "{\"weight_map\": {\"first.weight\": 5}}", "{}",
                          "{\"weight_map\": {}}", "{\"weight_map\"", "{\"weight_map\": [\"a\"]}"}) {
    write("model.safetensors.index.json", bad);
    EXPECT_THAT(error_of(""), AllOf(HasSubstr("model.safetensors.index.json is not an index of weights: it"),
                                    HasSubstr("download the model again"), testing::Not(HasSubstr("exception"))))
        << bad;
  }
}

TEST_F(WeightsFilesTest, LargeModelsAreSavedInSeveralFiles) {
  const auto path = folder_.path() / "model.safetensors";
  const auto exists = [&](const std::string& name) { return std::filesystem::exists(folder_.path() / name); };
  save_model(path, *net_, *world());
  save_model(path, *net_, *world(), {{"width", "5"}}, 100);
  EXPECT_FALSE(exists("model.safetensors"));
  const auto index = nlohmann::json::parse(read_file(folder_.path() / "model.safetensors.index.json"));
  EXPECT_EQ(index, nlohmann::json::parse(R"({"metadata": {"format": "pt", "total_size": 212, "width": "5"},
    "weight_map": {"first.bias": "model-00001-of-00003.safetensors", "first.weight": "model-00002-of-00003.safetensors",
    "second.bias": "model-00003-of-00003.safetensors", "second.weight": "model-00003-of-00003.safetensors"}})"));
  EXPECT_EQ(load_safetensors(folder_.path() / "model-00003-of-00003.safetensors").size(), 2U);
  expect_loads("");
  expect_loads("model.safetensors");
  EXPECT_THAT(load_metadata(path, *world()), testing::Contains(testing::Pair("width", "5")));
  save_model(path, *net_, *world());
  EXPECT_FALSE(exists("model.safetensors.index.json"));
  expect_loads("");
}

TEST_F(WeightsFilesTest, ALayoutTransposesPrefixesAndIgnores) {
  const FileLayout layout = {.prefix = "net.", .transposed = {"first.weight"}, .ignored = {".mask"}};
  NamedTensors stored;
  for (const auto& [name, tensor] : tensors("net.")) {
    stored.emplace_back(name, name == "net.first.weight" ? tensor.t().contiguous() : tensor);
  }
  stored.emplace_back("net.first.mask", torch::ones({2}));
  write("theirs", to_safetensors(stored));
  torch::manual_seed(10 + world()->rank());
  ToyNet loaded(false), matching(false);
  load_model(folder_.path() / "theirs", loaded, *world(), {}, layout);
  EXPECT_EQ(load_matching(folder_.path() / "theirs", matching, *world(), layout).loaded.size(), 4U);
  save_model(folder_.path() / "ours", loaded, *world(), {}, kBytesPerFile, layout);
  stored.pop_back();
  const NamedTensors written = load_safetensors(folder_.path() / "ours");
  EXPECT_EQ(written.size(), stored.size());
  for (const auto& [name, tensor] : written) {
    const auto found = std::ranges::find(stored, name, [](const auto& named) { return named.first; });
    ASSERT_TRUE(found != stored.end()) << name;
    EXPECT_TRUE(found->second.equal(tensor)) << name;
  }
  EXPECT_TRUE(matching.named_parameters()["first.weight"].equal(loaded.named_parameters()["first.weight"]));
}

TEST_F(WeightsFilesTest, ALayoutRenamesAndFlattens) {
  const FileLayout layout = {.flattened = {"first.bias"}, .renamed = {{"trunk.0.", "first."}, {".kernel", ".weight"}}};
  NamedTensors stored;
  for (auto [name, tensor] : tensors()) {
    if (name == "first.bias") tensor = tensor.view({-1, 1, 1});
    if (name.starts_with("first.")) name = "trunk.0." + name.substr(6);
    if (name == "trunk.0.weight") name = "trunk.0.kernel";
    stored.emplace_back(name, tensor);
  }
  for (const std::string name : {"renamed", "own"}) {
    write(name, to_safetensors(name == "own" ? tensors() : stored));
    torch::manual_seed(10 + world()->rank());
    ToyNet loaded(false);
    load_model(folder_.path() / name, loaded, *world(), {}, layout);
    for (const auto& item : net_->named_parameters()) {
      EXPECT_TRUE(loaded.named_parameters()[item.key()].equal(item.value())) << name << ": " << item.key();
    }
  }
  EXPECT_EQ(layout.module_name("subtrunk.0.kernel"), "subtrunk.0.weight");
  EXPECT_EQ(layout.module_name("subtrunk.0.trunk.0.a"), "subtrunk.0.first.a");
}

TEST_F(WeightsFilesTest, MissingAndFurtherTensorsAreListed) {
  NamedTensors few = tensors();
  few.erase(few.begin(), few.begin() + 2);
  write("few", to_safetensors(few));
  EXPECT_THAT(error_of("few"), HasSubstr("it lacks \"first.weight\", \"first.bias\""));
  NamedTensors many = tensors();
  for (int i = 0; i < 10; ++i) many.emplace_back("x" + std::to_string(i), torch::ones({1}));
  write("many", to_safetensors(many));
  EXPECT_THAT(error_of("many"), HasSubstr("\"x6\", \"x7\" and 2 more, which this one lacks"));
}

TEST_F(WeightsFilesTest, AFolderWithoutWeightsIsNamed) {
  const std::string expected = "there are no weights in the folder " + folder_.path().string();
  EXPECT_THAT(error_of(""), HasSubstr(expected));
  EXPECT_THAT([&] { (void)load_metadata(folder_.path(), *world()); }, ThrowsMessage<DataError>(HasSubstr(expected)));
  write("pytorch_model.bin", "PK");
  EXPECT_THAT(error_of(""), AllOf(HasSubstr(expected), HasSubstr("Convert its pytorch_model*.bin once: python3 -c \""),
                                  HasSubstr("'" + (folder_.path() / "model.safetensors").string() + "')\"")));
}

TEST_F(WeightsFilesTest, AFolderMayHoldOneFile) {
  write("model.safetensors", to_safetensors(tensors(), {{"width", "5"}}));
  expect_loads("");
  EXPECT_EQ(load_metadata(folder_.path(), *world()).at("width"), "5");
}

/// The bytes of a file with one more tensor, of dtype `dtype` and 8 bytes.
std::string with_tensor(const std::string& file, const std::string& dtype, const std::string& name = "extra") {
  std::uint64_t bytes = 0;
  std::memcpy(&bytes, file.data(), sizeof bytes);
  auto header = nlohmann::json::parse(file.substr(sizeof bytes, bytes));
  const std::string data = file.substr(sizeof bytes + bytes);
  header[name] = {{"dtype", dtype}, {"shape", {2}}, {"data_offsets", {data.size(), data.size() + 8}}};
  const std::string text = header.dump();
  bytes = text.size();
  return std::string(reinterpret_cast<const char*>(&bytes), sizeof bytes) + text + data + "12345678";
}

TEST_F(WeightsFilesTest, TensorsOfOtherDtypesDoNotStopOthers) {
  NamedTensors known = tensors();
  for (const auto type : {torch::kUInt16, torch::kUInt32, torch::kUInt64, torch::kFloat8_e4m3fn, torch::kFloat8_e5m2,
                          torch::kComplexFloat}) {
    known.emplace_back(toString(type), torch::zeros({3}).to(type));
  }
  const std::string file = with_tensor(with_tensor(to_safetensors(known), "F4", "a"), "C128", "b");
  write("kinds", file);
  torch::manual_seed(10 + world()->rank());
  ToyNet loaded(false);
  const LoadReport report = load_matching(folder_.path() / "kinds", loaded, *world());
  EXPECT_EQ(report.loaded.size(), 4U);
  EXPECT_EQ(report.extra.size(), 8U);
  EXPECT_TRUE(loaded.second->weight.equal(net_->second->weight));

  // A tensor of the model in such a dtype does not fit.
  NamedTensors some = tensors();
  some.erase(some.begin() + 1);  // first.bias
  write("unfit", with_tensor(to_safetensors(some), "F4", "first.bias"));
  EXPECT_THAT(load_matching(folder_.path() / "unfit", loaded, *world()).other_form, ElementsAre("first.bias"));
  EXPECT_THAT(error_of("unfit"), HasSubstr("\"first.bias\" is Byte [8] there and Float [5] in this one"));
  some.emplace_back("first.bias", torch::ones({5}, torch::kInt));
  write("whole", to_safetensors(some));
  EXPECT_THAT(error_of("whole"), HasSubstr("\"first.bias\" is Int [5] there and Float [5] in this one"));
  // Weights of 8 bits are cast, too.
  NamedTensors narrow;
  for (const auto& [name, tensor] : tensors()) narrow.emplace_back(name, tensor.to(torch::kFloat8_e4m3fn));
  write("narrow", to_safetensors(narrow));
  load_model(folder_.path() / "narrow", loaded, *world());
  EXPECT_TRUE(loaded.first->bias.equal(net_->first->bias.to(torch::kFloat8_e4m3fn).to(torch::kFloat)));
}

}  // namespace
}  // namespace mn
