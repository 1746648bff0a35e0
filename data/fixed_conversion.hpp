/// Converts samples of fixed fields to shards.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "data/conversion.hpp"

namespace mn::data {

/// Samples of fixed fields, which can be read in any order. All members are thread-safe.
class SampleSource {
 public:
  SampleSource() = default;
  virtual ~SampleSource() = default;
  SampleSource(const SampleSource&) = delete;
  SampleSource& operator=(const SampleSource&) = delete;

  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual const SampleSpec& spec() const = 0;
  /// Reads samples [first, last), little endian and in C order.
  virtual void read(std::int64_t first, std::int64_t last, RawSamples& samples) const = 0;
  [[nodiscard]] virtual std::string name() const = 0;
  /// Called before any shard is written. Throws DataError if a label is wrong.
  virtual void check() const {}
};

/// The error for a sample of `source` whose label can't be a class.
[[nodiscard]] DataError wrong_label(const std::string& source, std::int64_t sample, const std::string& label);

/// Throws a DataError that names `source` if a label can't be a class. labels[i] is the label of sample first + i.
void check_labels(std::span<const std::int64_t> labels, std::int64_t first, const std::string& source);

class DatasetSource final : public SampleSource {
 public:
  explicit DatasetSource(std::shared_ptr<const Dataset> dataset) : dataset_(std::move(dataset)) {}
  [[nodiscard]] std::int64_t size() const override { return dataset_->size(); }
  [[nodiscard]] const SampleSpec& spec() const override { return dataset_->spec(); }
  void read(std::int64_t first, std::int64_t last, RawSamples& samples) const override;
  [[nodiscard]] std::string name() const override { return "the dataset"; }

 private:
  std::shared_ptr<const Dataset> dataset_;
};

struct FixedSplit {
  Output output;
  nlohmann::json request;                         ///< what determines the samples, for Conversion::request()
  std::map<std::string, std::string> attributes;  ///< HDF5 attributes of every shard
  /// Opens the samples. The first call of a conversion leaves files in `scratch` for later calls.
  std::function<std::shared_ptr<const SampleSource>(const std::filesystem::path& scratch)> open;
};

class FixedConversion : public Conversion {
 public:
  FixedConversion(std::vector<FixedSplit> splits, std::int64_t shard_bytes);

  [[nodiscard]] nlohmann::json request() const override;
  void plan(const std::filesystem::path& scratch) override;
  void open(const std::filesystem::path& scratch) override;
  [[nodiscard]] std::size_t units() const override { return pieces_.size(); }
  [[nodiscard]] std::int64_t steps(std::size_t unit) const override;
  [[nodiscard]] ShardState state_of(std::size_t shard, const ShardReader& existing) const override;
  void convert(std::size_t unit, ConversionPart& part) override;
  [[nodiscard]] SampleSpec spec(std::size_t output, std::int64_t most) const override;

 private:
  struct Piece {
    std::size_t split;
    std::int64_t first;
    std::int64_t last;
  };

  std::vector<FixedSplit> splits_;
  std::int64_t shard_bytes_;
  std::vector<std::shared_ptr<const SampleSource>> sources_;  // [splits]
  std::vector<Piece> pieces_;                                 // [shards]
};

}  // namespace mn::data
