// Samples of named fields on their way to minibatches: scattered from memory, from shards and by an opener, at any
// number of ranks.
#include <cmath>
#include <cstring>
#include <memory>
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <mn/comm/communicator.hpp>
#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/data/function_dataset.hpp>
#include <mn/loader/loader.hpp>
#include <mn/loader/scatter.hpp>

#include "tests/data/field_kinds.hpp"
#include "tests/support/temporary_folder.hpp"

namespace mn {
namespace {

using test::all_kinds;
using test::field_bytes;
using test::Kind;
using testing::HasSubstr;

constexpr std::int64_t kSamples = 47;

/// Encoded fields as their bytes: what stands for a decoder here.
Transformed decode(const RawBatch& batch, std::vector<SampleError>&) {
  std::vector<BatchField> fields;
  for (std::size_t f = 0; f < batch.spec.fields.size(); ++f) {
    if (batch.spec[f].kind != FieldKind::kEncoded) {
      fields.push_back(default_field(batch, f));
      continue;
    }
    const RawColumn& column = batch.samples.columns[f];
    BatchField& field = fields.emplace_back();
    field.values = torch::empty({std::ssize(column.bytes)}, torch::kByte);
    if (!column.bytes.empty()) std::memcpy(field.values.data_ptr(), column.bytes.data(), column.bytes.size());
    field.offsets = torch::tensor(column.offsets, torch::kLong);
  }
  return fields;
}

class FieldRanks : public testing::Test {
 protected:
  FieldRanks() : comm_(create_communicator("naive")) {
    std::string path;
    if (comm_->rank() == 0) {
      folder_ = std::make_unique<test::TemporaryFolder>();
      path = folder_->path().string();
    }
    path_ = comm_->bcast_obj(path);
  }
  ~FieldRanks() override { comm_->barrier(); }

  /// Field `f` of the k-th sample of a batch equals field `f` of sample `number`.
  static void expect_field(const Batch& batch, const SampleSpec& spec, std::size_t f, std::int64_t k,
                           std::int64_t number) {
    const FieldSpec& field = spec[f];
    const at::Tensor& values = batch[f];
    EXPECT_EQ(batch[field.name].data_ptr(), values.data_ptr());
    const bool varies = field.kind != FieldKind::kFixed;
    const auto bytes = field_bytes(spec, f, number);
    at::Tensor own;
    if (varies) {
      const at::Tensor& offsets = batch.field(field.name).offsets;
      own = values.slice(0, offsets[k].item<std::int64_t>(), offsets[k + 1].item<std::int64_t>());
    } else {
      own = values[k];
    }
    EXPECT_EQ(own.numel(), std::ssize(bytes) / static_cast<std::int64_t>(size_of(field.dtype))) << field.name;
    std::vector<double> expected, found;
    const bool is_scaled = f == 0 && field.dtype == DType::kUInt8 && !varies;
    const at::Tensor numbers = (is_scaled ? own * 255 : own).to(torch::kDouble).contiguous();
    for (std::int64_t e = 0; e < numbers.numel(); ++e) found.push_back(std::round(numbers.data_ptr<double>()[e]));
    for (std::int64_t e = 0; e < numbers.numel(); ++e) {
      const std::int64_t small = (number * 7 + static_cast<std::int64_t>(f) * 3 + e) % test::kClasses;
      expected.push_back(static_cast<double>(field.dtype == DType::kBool ? small % 2 : small));
    }
    EXPECT_EQ(found, expected) << field.name << " of sample " << number;
    if (field.num_classes > 0) {
      EXPECT_EQ(values.scalar_type(), torch::kLong);
    }
    if (!field.shape.empty() && !varies) {
      EXPECT_EQ(own.sizes(), at::IntArrayRef(field.shape));
    }
  }

  /// An epoch on all ranks has each sample once, whole.
  void expect_epoch(const std::shared_ptr<SubDataset>& part, const SampleSpec& spec) {
    LoaderOptions options{.batchsize = 5, .shuffle = true, .seed = 3, .workers = 2};
    if (spec[0].kind == FieldKind::kEncoded) options.transform = decode;
    DataLoader loader(part, options);
    for (int epoch = 0; epoch < 2; ++epoch) {
      std::vector<std::int64_t> seen;
      while (const auto batch = loader.next()) {
        EXPECT_EQ(batch->fields.size(), spec.fields.size());
        for (std::int64_t k = 0; k < batch->samples; ++k) {
          seen.push_back(batch->indices[k]);
          for (std::size_t f = 0; f < spec.fields.size(); ++f) expect_field(*batch, spec, f, k, seen.back());
        }
      }
      std::multiset<std::int64_t> all;
      for (const auto& each : comm_->allgather_obj(nlohmann::json(seen))) {
        for (const auto& number : each) all.insert(number.get<std::int64_t>());
      }
      EXPECT_EQ(all.size(), static_cast<std::size_t>(kSamples));
      EXPECT_EQ(std::set<std::int64_t>(all.begin(), all.end()).size(), static_cast<std::size_t>(kSamples));
    }
  }

  std::shared_ptr<Communicator> comm_;
  std::unique_ptr<test::TemporaryFolder> folder_;
  std::string path_;
};

TEST_F(FieldRanks, FromTheRootsMemory) {
  for (const Kind& kind : all_kinds()) {
    SCOPED_TRACE(kind.name);
    for (const bool equal : {true, false}) {
      const ScatterOptions options{.shuffle = true, .seed = 5, .root = comm_->size() - 1, .force_equal_length = equal};
      const auto all = comm_->rank() == options.root ? test::made_kind(kind.spec, kSamples) : nullptr;
      const auto part = scatter_dataset(all, comm_, options);
      EXPECT_EQ(part->spec(), kind.spec);
      expect_epoch(part, kind.spec);
    }
  }
}

TEST_F(FieldRanks, FromShards) {
  for (const Kind& kind : all_kinds()) {
    SCOPED_TRACE(kind.name);
    const std::string folder = path_ + "/" + std::string(kind.name);
    const std::int64_t bytes = std::max<std::int64_t>(200, 3 * kind.spec.sample_bytes());
    if (comm_->rank() == 0) test::write_kind(folder, kind.spec, kSamples, bytes);
    comm_->barrier();
    const auto part = scatter_dataset(comm_->rank() == 0 ? open_dataset(folder) : nullptr, comm_);
    EXPECT_EQ(part->spec(), kind.spec);
    expect_epoch(part, kind.spec);
  }
}

TEST_F(FieldRanks, ByAnOpenerOfOnesOwn) {
  const SampleSpec spec = all_kinds()[3].spec;
  int opened = 0;
  const TableOpeners openers = {{"made", [&](const std::string& table) {
                                   ++opened;
                                   const auto facts = nlohmann::json::parse(table);
                                   return test::made_kind(sample_spec_from_json(facts.at("spec"), "the table"),
                                                          facts.at("size"), "made");
                                 }}};
  const auto part = scatter_dataset(comm_->rank() == 0 ? test::made_kind(spec, kSamples, "made") : nullptr, comm_,
                                    {.shuffle = true}, openers);
  EXPECT_EQ(opened, comm_->rank() == 0 ? 0 : 1);
  EXPECT_NE(part->shared(), nullptr) << "no sample was sent";
  expect_epoch(part, spec);
}

TEST_F(FieldRanks, AnOpenersErrorIsThrownOnEveryRank) {
  const SampleSpec spec = all_kinds()[1].spec;
  const auto all = [&] { return comm_->rank() == 0 ? test::made_kind(spec, kSamples, "made") : nullptr; };
  const auto error_of = [&](const TableOpeners& openers) {
    try {
      (void)scatter_dataset(all(), comm_, {}, openers);
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  const auto expect = [&](const TableOpeners& openers, const char* what) {
    const std::string error = error_of(openers);
    if (comm_->size() == 1) {
      EXPECT_EQ(error, "") << "the root needs no opener";
    } else {
      EXPECT_THAT(error, HasSubstr(what));
    }
  };
  expect({}, "no opener for the format \"made\"");
  const bool last = comm_->rank() == comm_->size() - 1;
  expect({{"made",
           [&](const std::string&) -> std::shared_ptr<Dataset> {
             if (last) throw DataError("this node has no such file");
             return test::made_kind(spec, kSamples, "made");
           }}},
         "this node has no such file");
  expect({{"made", [&](const std::string&) { return test::made_kind(spec, kSamples - 1, "made"); }}},
         "returned 46 samples, the root has 47");
  expect({{"made", [&](const std::string&) { return test::made_kind(all_kinds()[2].spec, kSamples, "made"); }}},
         "do not hold the same data");
  expect({{"made", [](const std::string&) { return std::shared_ptr<Dataset>(); }}}, "returned no dataset");
  comm_->barrier();
}

/// Sequences of many lengths in memory: a step holds equal samples as on a single rank.
TEST_F(FieldRanks, AnyNumberOfRanksHasTheSameStepsOfASharedDataset) {
  const auto make = [](std::int64_t longest) {
    const SampleSpec spec = {{{.name = "tokens", .kind = FieldKind::kVariable, .dtype = DType::kInt32}}};
    return make_dataset(kSamples + longest, spec, [](std::int64_t index, SampleWriter& sample) {
      sample.set("tokens", std::vector<std::int32_t>(static_cast<std::size_t>(index % 5), 7));
    });
  };
  const std::int64_t batchsize = 12 / comm_->size();
  const ScatterOptions shuffled{.shuffle = true, .seed = 5};
  DataLoader own(share_dataset(make(0), comm_, shuffled), {.batchsize = batchsize});
  DataLoader single(std::make_shared<SubDataset>(make(0), 0, 1, shuffled), {.batchsize = 12});
  while (const auto expected = single.next()) {
    const auto mine = own.next();
    ASSERT_TRUE(mine);
    std::set<std::int64_t> step;
    for (const auto& theirs : comm_->allgather_obj(nlohmann::json(mine->indices))) {
      for (const auto& index : theirs) EXPECT_TRUE(step.insert(index.get<std::int64_t>()).second);
    }
    EXPECT_EQ(step, std::set<std::int64_t>(expected->indices.begin(), expected->indices.end()));
  }
  EXPECT_FALSE(own.next());
  if (comm_->size() == 1) return;
  EXPECT_THROW((void)share_dataset(make(comm_->rank()), comm_), ArgumentError);
  EXPECT_THROW((void)share_dataset(comm_->rank() == 0 ? make(0) : nullptr, comm_), ArgumentError);
}

}  // namespace
}  // namespace mn
