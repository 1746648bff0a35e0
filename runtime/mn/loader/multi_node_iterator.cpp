// Only the root's iterator reads data. The root broadcasts each minibatch to all ranks.
//
// (1) In each collective call the root broadcasts one document with the result of its own iterator: an error, the end
//     of an epoch, or a list of a minibatch's tensors. Then it broadcasts the tensors in the order of the list.
// (2) Every document has the position of the root's iterator, so all ranks report the same epoch.
#include <mn/loader/multi_node_iterator.hpp>

#include <chrono>
#include <exception>
#include <string>
#include <utility>

#include <ATen/core/Tensor.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/tensor/messages.hpp>

namespace mn {
namespace {

using nlohmann::json;

class MultiNodeIterator final : public Iterator {
 public:
  MultiNodeIterator(std::shared_ptr<Iterator> actual, std::shared_ptr<Communicator> comm, int root)
      : actual_(std::move(actual)), comm_(std::move(comm)), root_(root) {
    exchange([this](json&) {
      if (!actual_) throw ArgumentError("create_multi_node_iterator needs an iterator on the root");
    });
  }

  std::optional<Batch> next() override {
    const auto begin = std::chrono::steady_clock::now();
    std::optional<Batch> batch;
    const json said = exchange([&](json& document) {
      batch = actual_->next();
      if (batch) describe(*batch, document);
    });
    if (said.contains("samples")) {
      if (!is_root()) batch = empty_batch(said);
      send(*batch, said);
    }
    wait_s_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return batch;
  }

  std::int64_t epoch() const override { return position_.at("epoch").get<std::int64_t>(); }
  double epoch_detail() const override { return position_.at("epoch_detail").get<double>(); }
  std::int64_t steps_per_epoch() const override { return position_.at("steps").get<std::int64_t>(); }
  json state() const override { return is_root() ? actual_->state() : json(); }
  void load_state(const json& state) override {
    exchange([&](json&) { actual_->load_state(state); });
  }
  double data_wait_s() const override { return wait_s_; }
  LoaderStats stats() const override { return is_root() ? actual_->stats() : LoaderStats(); }

 private:
  [[nodiscard]] bool is_root() const { return comm_->rank() == root_; }

  /// Collective. On the root, work(document) fills a document; exchange() adds the position of the root's iterator.
  /// Returns the root's document on every rank. If work() throws on the root, every rank throws an equal error.
  template <class Work>
  json exchange(const Work& work) {
    json document = json::object();
    if (is_root()) {
      try {
        work(document);
        document["position"] = {{"epoch", actual_->epoch()},
                                {"epoch_detail", actual_->epoch_detail()},
                                {"steps", actual_->steps_per_epoch()}};
      } catch (const ArgumentError& error) {
        document = {{"argument", error.what()}};
      } catch (const std::exception& error) {
        document = {{"error", error.what()}};
      }
    }
    document = comm_->bcast_obj(document, root_);
    if (document.contains("argument")) throw ArgumentError(document["argument"].get<std::string>(), true);
    if (document.contains("error")) throw DataError(document["error"].get<std::string>(), true);
    position_ = document.at("position");
    return document;
  }

  static constexpr int kAbsent = -2, kOwn = -1;

  /// Returns the position of the field whose values are `tensor`, so that each tensor is sent only once; kOwn if there
  /// is no such field, kAbsent if the tensor is not defined.
  static int source_of(const Batch& batch, const at::Tensor& tensor) {
    if (!tensor.defined()) return kAbsent;
    for (std::size_t i = 0; i < batch.fields.size(); ++i) {
      if (batch.fields[i].values.is_same(tensor)) return static_cast<int>(i);
    }
    return kOwn;
  }

  static void describe(const Batch& batch, json& document) {
    document["samples"] = batch.samples;
    document["indices"] = batch.indices;
    if (batch.weight) document["weight"] = *batch.weight;
    document["data"] = source_of(batch, batch.data);
    document["target"] = source_of(batch, batch.target);
    document["fields"] = json::array();
    for (const BatchField& field : batch.fields) {
      document["fields"].push_back(
          {{"name", field.name}, {"offsets", field.offsets.defined()}, {"longest", field.longest}});
    }
  }

  static Batch empty_batch(const json& said) {
    Batch batch;
    batch.samples = said.at("samples").get<std::int64_t>();
    batch.indices = said.at("indices").get<std::vector<std::int64_t>>();
    if (said.contains("weight")) batch.weight = said.at("weight").get<double>();
    for (const json& field : said.at("fields")) {
      batch.fields.push_back({.name = field.at("name"), .values = {}, .offsets = {}, .longest = field.at("longest")});
    }
    return batch;
  }

  void send(Batch& batch, const json& said) {
    const auto pass = [&](at::Tensor& tensor) { tensor = bcast_tensor(*comm_, tensor, root_); };
    for (std::size_t i = 0; i < batch.fields.size(); ++i) {
      pass(batch.fields[i].values);
      if (said.at("fields").at(i).at("offsets").get<bool>()) pass(batch.fields[i].offsets);
    }
    const auto fill = [&](at::Tensor& tensor, int source) {
      if (source == kOwn) pass(tensor);
      if (source >= 0) tensor = batch.fields[static_cast<std::size_t>(source)].values;
    };
    fill(batch.data, said.at("data").get<int>());
    fill(batch.target, said.at("target").get<int>());
  }

  std::shared_ptr<Iterator> actual_;
  std::shared_ptr<Communicator> comm_;
  int root_;
  json position_;
  double wait_s_ = 0;
};

}  // namespace

std::shared_ptr<Iterator> create_multi_node_iterator(std::shared_ptr<Iterator> actual,
                                                     std::shared_ptr<Communicator> comm, int root) {
  if (!comm) throw ArgumentError("create_multi_node_iterator needs a communicator");
  return std::make_shared<MultiNodeIterator>(std::move(actual), std::move(comm), root);
}

std::shared_ptr<Iterator> create_synchronized_iterator(std::shared_ptr<Iterator> actual, Communicator& comm, int root) {
  std::string fault = actual ? "" : "create_synchronized_iterator needs an iterator";
  const json state = comm.bcast_obj(comm.rank() == root && actual ? actual->state() : json(), root);
  try {
    if (actual) actual->load_state(state);
  } catch (const std::exception& error) {
    fault = std::string("create_synchronized_iterator: ") + error.what();
  }
  const std::vector<std::string> faults = comm.allgather_obj(fault);
  for (std::size_t rank = 0; rank < faults.size(); ++rank) {
    if (!faults[rank].empty()) throw ArgumentError("rank " + std::to_string(rank) + ": " + faults[rank], true);
  }
  return actual;
}

}  // namespace mn
