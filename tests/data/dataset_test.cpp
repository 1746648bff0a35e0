// Datasets in memory, and the form of a sample.
#include <utility>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/memory_dataset.hpp>
#include <mn/data/sample_spec.hpp>

#include "tests/data/shards_fixture.hpp"

namespace mn::data {
namespace {

using test::message_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

TEST(Dataset, RejectsIndicesOutOfRange) {
  RawSamples out;
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{10}}) {
    EXPECT_THROW(make_fixed(10)->read(std::span(&bad, 1), out), ArgumentError);
  }
}

TEST(MemoryDataset, RejectsMismatchedBytes) {
  const std::int64_t labels[] = {0, 1};
  const RawSamples samples = labeled_samples(ByteBuffer(7), labels);
  EXPECT_THROW(MemoryDataset(labeled({.shape = {4}}), samples), ArgumentError);
}

MemoryDataset dataset_with(const std::vector<std::int64_t>& labels, std::int64_t num_classes) {
  return MemoryDataset(labeled({}, num_classes), labeled_samples(ByteBuffer(labels.size()), labels));
}

TEST(MemoryDataset, RejectsLabelsOutOfRange) {
  EXPECT_THAT(message_of<ArgumentError>([] { dataset_with({2, 7}, 5); }), HasSubstr("sample 1"));
  EXPECT_THAT(message_of<ArgumentError>([] { dataset_with({2, 7}, 5); }), HasSubstr("label 7: classes are 0 to 4"));
  EXPECT_THAT(message_of<ArgumentError>([] { dataset_with({2, 0, -1}, 5); }), HasSubstr("label -1"));
  EXPECT_THAT(message_of<ArgumentError>([] {
                dataset_with({2, 7, -1}, kCountClasses);
              }),
              HasSubstr("sample 2 has label -1: classes are 0 to 7"));
}

TEST(MemoryDataset, CountsTheClassesWhereNobodySaysHowMany) {
  EXPECT_EQ(dataset_with({2, 7, 0}, kCountClasses).spec().num_classes(), 8);
  EXPECT_EQ(dataset_with({2, 7, 0}, 10).spec().num_classes(), 10);
  EXPECT_EQ(dataset_with({2, 7, -3}, 0).spec().num_classes(), 0) << "no classes";
  EXPECT_EQ(dataset_with({}, kCountClasses).spec().num_classes(), 1);
}

TEST(EmptyDataset, HasTheSizeAndNoByte) {
  const auto empty = create_empty_dataset(*make_fixed(10));
  RawSamples out;
  const std::vector<std::int64_t> indices = {0, 9};
  empty->read(indices, out);
  EXPECT_EQ(empty->size(), 10);
  EXPECT_EQ(out.size(), 2);
  EXPECT_TRUE(out.columns[0].bytes.empty());
  EXPECT_EQ(labels_of(out), (std::vector<std::int64_t>{0, 0}));
}

/// A field of each kind, of each dtype.
SampleSpec many_fields() {
  SampleSpec spec;
  for (int i = 0; i <= static_cast<int>(DType::kUInt32); ++i) {
    const auto dtype = static_cast<DType>(i);
    spec.fields.push_back({.name = std::string(name_of(dtype)), .dtype = dtype, .shape = {i + 1, 2}});
  }
  spec.fields.push_back({.name = "image", .kind = FieldKind::kEncoded});
  spec.fields.push_back({.name = "boxes", .kind = FieldKind::kVariable, .dtype = DType::kFloat32, .shape = {4}});
  spec.fields.push_back(
      {.name = "kinds", .kind = FieldKind::kVariable, .num_classes = 2, .class_names = {"cat", "dog"}});
  return spec;
}

TEST(SampleSpec, ComesBackFromJson) {
  const SampleSpec encoded = labeled({.kind = FieldKind::kEncoded}, 1000);
  const SampleSpec floats = labeled({.dtype = DType::kFloat32, .shape = {0, 7}}, 0);
  for (const SampleSpec& spec : {make_fixed(1)->spec(), encoded, floats, many_fields()}) {
    EXPECT_EQ(sample_spec_from_json(to_json(spec), "it"), spec);
    EXPECT_EQ(sample_spec_from_json(nlohmann::json::from_cbor(nlohmann::json::to_cbor(to_json(spec))), "it"), spec);
  }
}

TEST(SampleSpec, HasItsFieldsByNameAndPosition) {
  const SampleSpec spec = many_fields();
  EXPECT_EQ(&spec["boxes"], &spec[spec.position("boxes")]);
  EXPECT_EQ(spec["boxes"].row_bytes(), 16);
  EXPECT_EQ(spec["boxes"].sample_bytes(), 0);
  EXPECT_EQ(spec["int64"].sample_bytes(), 3 * 2 * 8);
  EXPECT_THAT(message_of<ArgumentError>([&] { (void)spec["labels"]; }), HasSubstr("uint8, int32"));
  EXPECT_THROW((void)spec[spec.fields.size()], ArgumentError);
}

void expect_no_spec(const nlohmann::json& document, const std::string& what) {
  EXPECT_THAT(message_of<DataError>([&] { (void)sample_spec_from_json(document, "the table"); }),
              AllOf(StartsWith("the table "), HasSubstr(what)))
      << document;
}

TEST(SampleSpec, NonsenseIsADataError) {
  const nlohmann::json good = to_json(make_fixed(1)->spec());
  struct Wrong {
    std::size_t field;
    const char* key;
    nlohmann::json value;
  };
  const Wrong wrong[] = {
      {0, "kind", 2},
      {0, "kind", "other"},
      {0, "dtype", 10},
      {0, "dtype", nullptr},
      {0, "shape", {3, -5}},
      {0, "shape", {std::int64_t{1} << 32, std::int64_t{1} << 32}},
      {0, "shape", 15},
      {0, "shape", {3, 1.5}},
      {0, "shape", {9e35}},
      {1, "num_classes", -1},
      {1, "num_classes", 5.5},
      {1, "num_classes", 4},  // five names
      {1, "class_names", {1, 2, 3, 4, 5}},
  };
  for (const auto& [field, key, value] : wrong) {
    nlohmann::json bad = good;
    bad["fields"][field][key] = value;
    expect_no_spec(bad, "");
  }
  for (const char* key : {"name", "kind", "dtype", "shape"}) {
    nlohmann::json bad = good;
    bad["fields"][0].erase(key);
    expect_no_spec(bad, key);
  }
  expect_no_spec(nlohmann::json::object(), "fields");
  EXPECT_THROW((void)sample_spec_from_json("text", "it"), DataError);
}

TEST(SampleSpec, NonsenseInOneOfManyFieldsIsADataError) {
  const nlohmann::json good = to_json(many_fields());
  const auto with = [&](std::size_t field, const char* key, const nlohmann::json& value) {
    nlohmann::json bad = good;
    bad["fields"][field][key] = value;
    return bad;
  };
  expect_no_spec(with(3, "name", "uint8"), "two fields are called uint8");
  for (const char* name : {"", "a/b", "a b", ".", "x_offsets", "x_crc32c", "\xc3\xa7"}) {
    expect_no_spec(with(3, "name", name), "the field's name");
  }
  expect_no_spec(with(0, "kind", "loose"), "kind \"loose\"");
  expect_no_spec(with(0, "kind", 0), "");
  expect_no_spec(with(0, "dtype", "int3"), "dtype \"int3\"");
  expect_no_spec(with(0, "shape", {-1}), "extent -1");
  expect_no_spec(with(13, "shape", {2}), "field image: encoded");
  expect_no_spec(with(14, "shape", {0}), "field boxes: rows without elements");
  expect_no_spec(with(15, "num_classes", 3), "2 names for 3 classes");
  expect_no_spec(with(14, "num_classes", 3), "not integers");
  expect_no_spec(with(1, "num_classes", kCountClasses), "not counted");
  expect_no_spec({{"fields", nlohmann::json::array()}}, "0 fields");
  expect_no_spec({{"fields", 3}}, "");
  expect_no_spec({{"fields", {3}}}, "");
}

TEST(RawSamples, TakeOnlyWhatFits) {
  const SampleSpec spec = {{{.name = "x", .dtype = DType::kFloat32, .shape = {2}},
                            {.name = "tokens", .kind = FieldKind::kVariable, .dtype = DType::kInt16}}};
  RawSamples samples(spec);
  const float x[] = {1, 2};
  const std::vector<std::int16_t> tokens = {1, 2, 3};
  const double doubles[] = {1, 2};
  samples.add(spec, {x, tokens});
  samples.add(spec, {x, std::span(tokens).first(0)});
  const auto refusal = [&](std::initializer_list<ConstBufferView> fields) {
    return message_of<ArgumentError>([&] { samples.add(spec, fields); });
  };
  EXPECT_THAT(refusal({doubles, tokens}), AllOf(HasSubstr("field x of sample 2"), HasSubstr("float64")));
  EXPECT_THAT(refusal({std::span(x).first(1), tokens}), HasSubstr("8 bytes, not 4"));
  EXPECT_THAT(refusal({x}), HasSubstr("1 fields, not 2"));
  EXPECT_EQ(samples.size(), 2);
  EXPECT_EQ(samples.columns[1].offsets, (std::vector<std::int64_t>{0, 6, 6}));
  const MemoryDataset dataset(spec, samples);
  RawSamples out;
  const std::int64_t indices[] = {1, 0, 0};
  dataset.read(indices, out);
  EXPECT_EQ(out.columns[1].offsets, (std::vector<std::int64_t>{0, 0, 6, 12}));
  EXPECT_EQ(out.columns[1].values<std::int16_t>()[5], 3);
}

}  // namespace
}  // namespace mn::data
