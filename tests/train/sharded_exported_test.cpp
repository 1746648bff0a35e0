// Exported models that rank 0 reads for all ranks, whole or in pieces.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/json.hpp>
#include <mn/nn/exported_module.hpp>
#include <mn/sharding/pieces.hpp>
#include <mn/sharding/sharded_construction.hpp>
#include <mn/tensor/modules.hpp>

#include "tests/nn/exported_files.hpp"
#include "tests/support/resident_bytes.hpp"
#include "tests/train/toy.hpp"

namespace mn {
namespace {

using toy::world;

/// A file that only rank 0 has.
class FileOnRoot {
 public:
  explicit FileOnRoot(const std::string& bytes)
      : path_(folder_.path() / ("rank" + std::to_string(world()->rank()) + ".pt2")) {
    if (world()->rank() == 0) write_file(path_, bytes);
  }
  [[nodiscard]] const std::filesystem::path& path() const { return path_; }

 private:
  toy::TestFolder folder_{world()};
  std::filesystem::path path_;
};

std::shared_ptr<ExportedModule> make(const ExportedFile& file, bool in_pieces) {
  const auto read = [&] { return std::make_shared<ExportedModule>(file); };
  return in_pieces ? construct_sharded(world(), read, /*whole_bytes=*/0) : read();
}

TEST(ShardedExported, HasTheValuesThatRank0Reads) {
  for (const char* name : {"conv.pt2", "gpt.pt2", "state.pt2", "complex.pt2", "forms.pt2"}) {
    const std::string bytes = test::model_file(name);
    const ExportedModule expected(bytes, name);
    const NamedTensors wanted = named_tensors(expected);
    const FileOnRoot on_root(bytes);
    const ExportedFile file(on_root.path(), world());
    for (const bool in_pieces : {false, true}) {
      const auto model = make(file, in_pieces);
      for (const auto& [key, parameter] : named_parameters(*model)) {
        const bool is_divided = in_pieces && parameter.requires_grad() && parameter.numel() > 0;
        EXPECT_EQ(is_in_pieces(parameter), is_divided) << name << key;
      }
      const NamedTensors given = named_tensors(*model);
      ASSERT_EQ(given.size(), wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        EXPECT_TRUE(torch::equal(given[i].second, wanted[i].second)) << name << wanted[i].first;
      }
    }
  }
}

TEST(ShardedExported, DamageIsTheSameErrorOnEveryRank) {
  std::string bytes = test::model_file("mlp.pt2");
  bytes[bytes.find(test::records_of("mlp").at("data/weights/weight_2"))] ^= 1;
  const FileOnRoot on_root(bytes);
  const ExportedFile file(on_root.path(), world());
  static_cast<void>(ExportedModule(file.without_values()));
  for (const bool in_pieces : {false, true}) {
    std::string text;
    try {
      static_cast<void>(make(file, in_pieces));
    } catch (const DataError& error) {
      text = error.what();
    }
    EXPECT_THAT(world()->allgather_obj(text), testing::Each(testing::HasSubstr("checksum of the record")));
  }
  const FileOnRoot cut(bytes.substr(0, bytes.size() / 2));
  EXPECT_THROW(ExportedFile(cut.path(), world()), DataError);
}

/// The model mlp with weights of 40 MiB each in place of its weights.
std::string large_model() {
  test::Records records = test::records_of("mlp");
  nlohmann::json config = parse_json(records.at("data/weights/model_weights_config.json"), "weights");
  for (auto& [name, entry] : config.at("config").items()) {
    entry["tensor_meta"]["sizes"] = {{{"as_int", 40}}, {{"as_int", 1 << 18}}};
    entry["tensor_meta"]["strides"] = {{{"as_int", 1 << 18}}, {{"as_int", 1}}};
    records["data/weights/" + entry.at("path_name").get<std::string>()] = std::string(40 << 20, '\1');
  }
  records["data/weights/model_weights_config.json"] = config.dump();
  return test::archive_of(records);
}

TEST(ShardedExported, MemoryIsThatOfPiecesAndThreeTensors) {
  constexpr std::int64_t kTensor = 40 << 20, kModel = 4 * kTensor, kSlack = 16 << 20;
  const FileOnRoot on_root(world()->rank() == 0 ? large_model() : "");
  world()->barrier();
  const std::int64_t before = test::resident_bytes();
  if (!test::reset_peak_bytes()) GTEST_SKIP();
  const ExportedFile file(on_root.path(), world());
  const auto model = make(file, /*in_pieces=*/true);
  EXPECT_LE(test::peak_bytes() - before, kModel / world()->size() + 3 * kTensor + kSlack);
}

}  // namespace
}  // namespace mn
