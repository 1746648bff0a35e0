// Datasets in memory, and the form of a sample.
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/sample_spec.hpp>

#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Dataset, RejectsIndicesOutOfRange) {
  RawSamples out;
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{10}}) {
    EXPECT_THROW(make_fixed(10)->read(std::span(&bad, 1), out), ArgumentError);
  }
}

TEST(MemoryDataset, RejectsMismatchedBytes) {
  SampleSpec spec;
  spec.shape = {4};
  RawSamples samples;
  samples.bytes.resize(7);
  samples.labels = {0, 1};
  EXPECT_THROW(MemoryDataset(spec, samples), ArgumentError);
}

MemoryDataset dataset_with(std::vector<std::int64_t> labels, std::int64_t num_classes) {
  SampleSpec spec;
  spec.num_classes = num_classes;
  RawSamples samples;
  samples.bytes.resize(labels.size());
  samples.labels = std::move(labels);
  return MemoryDataset(spec, samples);
}

TEST(MemoryDataset, RejectsLabelsOutOfRange) {
  EXPECT_THAT(message_of<ArgumentError>([] { dataset_with({2, 7}, 5); }), HasSubstr("sample 1"));
  EXPECT_THAT(message_of<ArgumentError>([] { dataset_with({2, 7}, 5); }), HasSubstr("label 7: labels are 0 to 4"));
  EXPECT_THAT(message_of<ArgumentError>([] { dataset_with({2, 0, -1}, 5); }), HasSubstr("label -1"));
  EXPECT_THAT(message_of<ArgumentError>([] { dataset_with({2, 7, -1}, 0); }), HasSubstr("label -1: labels are 0 to 7"));
}

TEST(MemoryDataset, CountsTheClassesWhereNobodySaysHowMany) {
  EXPECT_EQ(dataset_with({2, 7, 0}, 0).spec().num_classes, 8);
  EXPECT_EQ(dataset_with({2, 7, 0}, 10).spec().num_classes, 10);
  EXPECT_EQ(dataset_with({}, 0).spec().num_classes, 0);
}

TEST(EmptyDataset, HasTheSizeAndNoByte) {
  const auto empty = create_empty_dataset(*make_fixed(10));
  RawSamples out;
  const std::vector<std::int64_t> indices = {0, 9};
  empty->read(indices, out);
  EXPECT_EQ(empty->size(), 10);
  EXPECT_EQ(out.size(), 2);
  EXPECT_TRUE(out.bytes.empty());
}

TEST(SampleSpec, ComesBackFromJson) {
  SampleSpec encoded;
  encoded.kind = SampleKind::kEncoded;
  encoded.num_classes = 1000;
  SampleSpec floats;
  floats.dtype = DType::kFloat32;
  floats.shape = {0, 7};
  for (const SampleSpec& spec : {make_fixed(1)->spec(), encoded, floats, SampleSpec{}}) {
    EXPECT_EQ(sample_spec_from_json(to_json(spec), "it"), spec);
    EXPECT_EQ(sample_spec_from_json(nlohmann::json::from_cbor(nlohmann::json::to_cbor(to_json(spec))), "it"), spec);
  }
}

TEST(SampleSpec, NonsenseIsADataError) {
  const nlohmann::json good = to_json(make_fixed(1)->spec());
  const std::pair<const char*, nlohmann::json> wrong[] = {
      {"kind", 2},
      {"kind", -1},
      {"kind", "fixed"},
      {"dtype", 10},
      {"dtype", nullptr},
      {"shape", {3, -5}},
      {"shape", {std::int64_t{1} << 32, std::int64_t{1} << 32}},
      {"shape", 15},
      {"num_classes", -1},
      {"num_classes", 4},  // five names
      {"class_names", {1, 2, 3, 4, 5}},
  };
  for (const auto& [key, value] : wrong) {
    nlohmann::json bad = good;
    bad[key] = value;
    EXPECT_THAT(message_of<DataError>([&] { (void)sample_spec_from_json(bad, "the table"); }), StartsWith("the table "))
        << key << " = " << value;
    bad.erase(key);
    EXPECT_THAT(message_of<DataError>([&] { (void)sample_spec_from_json(bad, "the table"); }), HasSubstr(key));
  }
  EXPECT_THROW((void)sample_spec_from_json("text", "it"), DataError);
}

}  // namespace
}  // namespace mn::data
