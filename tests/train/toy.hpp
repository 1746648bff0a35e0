// A small training job in memory: data, model and trainer for tests.
#pragma once

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/torch.h>

#include <mn/checkpoint/format/saved_checkpoint.hpp>
#include <mn/comm/communicator.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/optimizers/fused_adam.hpp>
#include <mn/trainer/trainer.hpp>

namespace mn::toy {

/// Samples 0 … size − 1, in another order each epoch. Step k takes the same samples for any number of ranks.
class ToyIterator final : public Iterator {
 public:
  ToyIterator(std::int64_t size, std::int64_t batchsize, const Communicator& comm)
      : size_(size), batchsize_(batchsize), rank_(comm.rank()), ranks_(comm.size()) {}

  std::optional<Batch> next() override {
    if (at_end_) {
      at_end_ = false;
      return std::nullopt;
    }
    std::vector<at::Tensor> data;
    std::vector<std::int64_t> target;
    const std::int64_t last = std::min(consumed_ + batchsize_ * ranks_, size_);
    for (std::int64_t p = consumed_; p < last; ++p) {
      if (p % ranks_ != rank_) continue;
      const std::int64_t sample = (p * 7 + epoch_ * 3) % size_;  // a permutation unless 7 divides size
      data.push_back(torch::sin(torch::arange(6) * (sample + 1)));
      target.push_back(sample % 3);
    }
    consumed_ = last;
    if (consumed_ == size_) {
      consumed_ = 0;
      ++epoch_;
      at_end_ = true;
    }
    const auto samples = static_cast<std::int64_t>(target.size());
    return Batch{samples > 0 ? torch::stack(data) : torch::empty({0, 6}), torch::tensor(target, torch::kLong), samples};
  }
  std::int64_t epoch() const override { return epoch_; }
  double epoch_detail() const override { return static_cast<double>(epoch_) + static_cast<double>(consumed_) / size_; }
  std::int64_t steps_per_epoch() const override { return (size_ + batchsize_ * ranks_ - 1) / (batchsize_ * ranks_); }
  nlohmann::json state() const override { return {{"epoch", epoch_}, {"consumed", consumed_}}; }
  void load_state(const nlohmann::json& state) override {
    epoch_ = state.at("epoch");
    consumed_ = state.at("consumed");
    at_end_ = false;
  }
  double data_wait_s() const override { return 0; }

 private:
  std::int64_t size_, batchsize_;
  int rank_, ranks_;
  std::int64_t epoch_ = 0, consumed_ = 0;
  bool at_end_ = false;
};

/// 6 → 5 → 3. With noise: dropout, and a running mean of this rank's inputs as a buffer, as batch normalization has.
struct ToyNet : torch::nn::Module {
  explicit ToyNet(bool noise) : noise_(noise) {
    first = register_module("first", torch::nn::Linear(6, 5));
    second = register_module("second", torch::nn::Linear(5, 3));
    if (noise_) running_mean = register_buffer("running_mean", torch::zeros({6}));
  }
  at::Tensor forward(at::Tensor x) {
    if (noise_) {
      const at::NoGradGuard no_grad;
      if (is_training()) running_mean.mul_(0.9).add_(x.mean(0), 0.1);
    }
    if (noise_) x = torch::dropout(x - running_mean, 0.3, is_training());
    x = torch::tanh(first(x));
    if (between_layers) between_layers();
    return second(x);
  }
  torch::nn::Linear first{nullptr}, second{nullptr};
  at::Tensor running_mean;
  std::function<void()> between_layers = {};

 private:
  bool noise_;
};

/// A folder for the files of one test, the same on all ranks; removed with the object. Collective.
class TestFolder {
 public:
  explicit TestFolder(std::shared_ptr<Communicator> comm) : comm_(std::move(comm)) {
    std::string name = (std::filesystem::temp_directory_path() / "mn-test-XXXXXX").string();
    if (comm_->rank() == 0 && mkdtemp(name.data()) == nullptr) name.clear();
    path_ = comm_->bcast_obj(name);
  }
  ~TestFolder() {
    comm_->barrier();
    if (comm_->rank() == 0) std::filesystem::remove_all(path_);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::shared_ptr<Communicator> comm_;
  std::filesystem::path path_;
};

struct ToyOptions {
  std::int64_t size = 50;
  std::int64_t batchsize = 4;
  bool noise = false;
  bool sgd = false;
  bool fused = false;                                                                          // FusedAdam
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)> make = {};  // empty: one of these
  TrainerOptions trainer = {};
  OptimizerOptions optimizer = {};
};

/// Model, optimizer, iterator and trainer of one job.
struct ToyJob {
  std::shared_ptr<ToyNet> model;
  std::shared_ptr<ToyIterator> iterator;
  std::unique_ptr<Trainer> trainer;

  ToyJob(const std::shared_ptr<Communicator>& comm, const ToyOptions& options) {
    torch::manual_seed(5);
    model = std::make_shared<ToyNet>(options.noise);
    torch::manual_seed(100 + comm->rank());
    iterator = std::make_shared<ToyIterator>(options.size, options.batchsize, *comm);
    std::unique_ptr<torch::optim::Optimizer> actual;
    if (options.make) {
      actual = options.make(model->parameters());
    } else if (options.sgd) {
      actual = std::make_unique<torch::optim::SGD>(model->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
    } else if (options.fused) {
      actual = std::make_unique<FusedAdam>(model->parameters(), torch::optim::AdamOptions(0.01));
    } else {
      actual = std::make_unique<torch::optim::Adam>(model->parameters(), torch::optim::AdamOptions(0.01));
    }
    const auto compute_loss = [net = model](const Batch& batch, Summary& report) {
      const at::Tensor scores = net->forward(batch.data);
      const double right = scores.argmax(1).eq(batch.target).sum().item<double>();
      report.add("accuracy", right / static_cast<double>(batch.samples), static_cast<double>(batch.samples));
      return torch::nn::functional::cross_entropy(scores, batch.target);
    };
    trainer = std::make_unique<Trainer>(comm, create_multi_node_optimizer(std::move(actual), comm, options.optimizer),
                                        iterator, model, compute_loss, options.trainer);
  }

  at::Tensor weights() const {
    std::vector<at::Tensor> flat;
    for (const auto& parameter : model->parameters()) flat.push_back(parameter.detach().flatten());
    return torch::cat(flat);
  }
};

inline std::shared_ptr<Communicator> world() {
  static const auto comm = create_communicator("flat", MPI_COMM_WORLD, {.device = Device{}});
  return comm;
}

/// Changes what a checkpoint says of its training. Collective.
template <class Change>
void edit_checkpoint(const std::filesystem::path& path, const Change& change) {
  if (world()->rank() == 0) {
    Manifest manifest = SavedCheckpoint(path).manifest();
    change(manifest.about);
    write_file(path / kCheckpointManifestName, manifest_text(manifest));
  }
  world()->barrier();
}

/// The bytes of tensors, one after the other.
inline std::string bytes_of(const std::vector<at::Tensor>& tensors) {
  std::string bytes;
  for (const auto& tensor : tensors) bytes.append(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  return bytes;
}

/// True if `value` has the same bytes on every rank. Collective.
inline bool same_on_all(const std::string& value, Communicator& comm = *world()) {
  return comm.bcast_obj(value) == value;
}

}  // namespace mn::toy
