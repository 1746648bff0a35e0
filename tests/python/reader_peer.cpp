// What tests/python/reader_test.py compares mn's reader for Python with.
// reader_peer write DIR: shards of each kind of data in a folder of DIR
// reader_peer read FOLDER: for each sample a line of JSON: number of bytes and CRC-32 of each field
// reader_peer order FOLDER RANKS: the default order of a dataset
// reader_peer steps: reads lines of JSON, each a sampler and how many steps to take; prints the samples of each step
#include <iostream>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <mn/core/checksum.hpp>
#include <mn/core/json.hpp>
#include <mn/data/order.hpp>
#include <mn/data/sampler.hpp>
#include <mn/data/stored_dataset.hpp>

#include "tests/data/field_kinds.hpp"

namespace mn {
namespace {

using nlohmann::json;

void write(const std::filesystem::path& folder) {
  std::int64_t number = 0;
  for (const test::Kind& kind : test::all_kinds()) {
    const std::int64_t samples = kind.spec.sample_bytes() < 10'000 ? 1500 : 12;
    test::write_kind(folder / std::to_string(number++), kind.spec, samples, 160 << 10);
  }
}

void read(const std::string& folder) {
  const auto dataset = open_dataset(folder);
  RawSamples samples;
  for (std::int64_t i = 0; i < dataset->size(); ++i) {
    dataset->read(std::span(&i, 1), samples);
    json line = json::array();
    for (const RawColumn& column : samples.columns) {
      line.push_back({column.bytes.size(), crc32_gzip(std::span(column.bytes))});
    }
    std::cout << line << '\n';
  }
}

json order_json(const data::OrderOptions& order) {
  return {{"shuffle", order.shuffle}, {"lanes", order.lanes}, {"adjacent", order.adjacent},
          {"windows", order.windows}, {"mixed", order.mixed}, {"aligned", order.aligned}};
}

/// The default order of made-up layouts, or the steps of a sampler.
json answer(const json& asked) {
  const std::int64_t n = asked.at("n");
  if (asked.contains("layout")) {
    const json& layout = asked["layout"];
    return order_json(data::default_order(n,
                                          {.bytes = layout.at("bytes"),
                                           .files = layout.at("files"),
                                           .block_samples = layout.at("block_samples"),
                                           .index_bytes = layout.at("index_bytes"),
                                           .is_packed = layout.at("is_packed"),
                                           .live_bytes = layout.at("live_bytes")},
                                          true, asked.at("ranks")));
  }
  const json& order = asked.at("order");
  GlobalSampler sampler(n, 1,
                        {.batchsize = asked.at("batch_size"),
                         .rank = asked.at("rank"),
                         .ranks = asked.at("ranks"),
                         .seed = asked.at("seed"),
                         .drop_last = asked.at("drop_last"),
                         .even_last = asked.at("even_last"),
                         .order = {.shuffle = order.at("shuffle"),
                                   .lanes = order.at("lanes"),
                                   .adjacent = order.at("adjacent"),
                                   .windows = order.at("windows"),
                                   .mixed = order.at("mixed"),
                                   .aligned = order.at("aligned")}});
  const EpochPosition begin{.epoch = asked.at("epoch"), .consumed = asked.at("consumed")};
  sampler.load_state(sampler.state(begin));
  json epochs = json::array();
  for (int epoch = 0; epoch < asked.at("epochs"); ++epoch) {
    json steps = json::array();
    while (const auto step = sampler.next()) steps.push_back(step->indices);
    epochs.push_back(std::move(steps));
  }
  return {{"epochs", std::move(epochs)}, {"steps_per_epoch", sampler.steps_per_epoch()}};
}

}  // namespace
}  // namespace mn

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "write") mn::write(argv[2]);
  if (command == "read") mn::read(argv[2]);
  if (command == "order") {
    const auto table = mn::data::read_table(argv[2]);
    const auto order = mn::data::default_order(table->num_samples(), table->layout(), true, std::stoi(argv[3]));
    std::cout << mn::order_json(order) << '\n';
  }
  if (command == "steps") {
    for (std::string line; std::getline(std::cin, line);) std::cout << mn::answer(nlohmann::json::parse(line)) << '\n';
  }
}
