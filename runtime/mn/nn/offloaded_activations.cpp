// Hooks on saved tensors, and the storages that they move.
//
// All saved views of a storage share a MovedStorage. A stream for each direction copies. Streams wait for one another
// by events, and the host never waits.
// (1) A storage stays on the device until kWindow more have begun to move. Then the computing stream waits for the
//     copy, and the memory is freed. So the allocator can reuse the memory at once, even if the host is far ahead of
//     the device; with record_stream() it could not.
// (2) Backward begins to bring a storage back once it uses the storage that was saved kWindow storages later. The
//     memory belongs to the computing stream, so the copy begins after the work that is enqueued before.
// (3) Backward uses storages that are still on the device (1) there.
#include <mn/nn/offloaded_activations.hpp>

#include <functional>
#include <mutex>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <mn/core/error.hpp>
#include <mn/core/log.hpp>
#include <mn/tensor/modules.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

constexpr std::size_t kLeastBytes = 1 << 20;
constexpr std::size_t kWindow = 4;
constexpr std::size_t kLeastPart = 4;  // a saved tensor has at least a quarter of a moved storage

c10::Stream stream_of_pool(c10::Device device) {
  return c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
}

/// The storage's bytes as a tensor.
at::Tensor bytes_of(const c10::Storage& storage) {
  const at::Tensor bytes = at::empty({0}, at::TensorOptions(at::kByte).device(storage.device()));
  return bytes.set_(storage, 0, {static_cast<std::int64_t>(storage.nbytes())}, {1});
}

/// True for autocast's copy of a parameter and for views of the copy.
bool is_cast_parameter(const at::Tensor& tensor) {
  const auto& function = (tensor.is_view() ? tensor._base() : tensor).grad_fn();
  return function && function->name() == "ToCopyBackward0" && function->num_outputs() > 0 &&
         dynamic_cast<torch::autograd::AccumulateGrad*>(function->next_edge(0).function.get()) != nullptr;
}

class MovedStorage {
 public:
  /// Begins to copy the tensor's storage to the host, after the work on the current stream.
  MovedStorage(const at::Tensor& tensor, std::size_t number, const c10::Stream& user, const c10::Stream& out)
      : number_(number),
        version_(tensor._version()),
        source_(tensor.storage().getWeakStorageImpl()),
        on_device_(tensor.storage()),
        owner_(user),
        copied_(user.device_type()) {
    const at::Tensor bytes = bytes_of(on_device_);
    on_host_ = at::empty(bytes.sizes(), at::TensorOptions(at::kByte).pinned_memory(true));
    copied_.record(user);
    copied_.block(out);
    copy(on_host_, bytes, out);
  }
  /// The owner must not reuse memory that a copy still writes.
  ~MovedStorage() {
    try {
      if (is_back_) copied_.block(owner_);
    } catch (const std::exception& error) {
      log_warning(std::string("offloaded activations: ") + error.what());
    }
  }
  MovedStorage(const MovedStorage&) = delete;
  MovedStorage& operator=(const MovedStorage&) = delete;

  [[nodiscard]] std::size_t number() const noexcept { return number_; }
  [[nodiscard]] std::uint32_t version() const noexcept { return version_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return on_host_.nbytes(); }

  /// Frees the memory of the device (1).
  void leave() {
    copied_.block(owner_);
    on_device_ = {};
  }
  /// Begins to copy the storage to memory of the current stream, unless it has memory on the device (2, 3).
  void come_back(const c10::Stream& user, const c10::Stream& in) {
    if (on_device_) return;
    const at::Tensor bytes = at::empty(on_host_.sizes(), at::TensorOptions(at::kByte).device(user.device()));
    c10::Event is_free(user.device_type());
    is_free.record(user);
    is_free.block(in);
    copied_.block(in);
    copy(bytes, on_host_, in);
    on_device_ = bytes.storage();
    owner_ = user;
    is_back_ = true;
  }
  /// The storage on the device, for work on the current stream.
  [[nodiscard]] c10::Storage use(const c10::Stream& user, const c10::Stream& in) {
    come_back(user, in);
    if (is_back_) copied_.block(user);
    if (user != owner_) bytes_of(on_device_).record_stream(user);
    return on_device_;
  }

 private:
  void copy(const at::Tensor& to, const at::Tensor& from, const c10::Stream& stream) {
    const c10::StreamGuard guard(stream);
    to.copy_(from, /*non_blocking=*/true);
    copied_.record(stream);
  }

  std::size_t number_;
  std::uint32_t version_;
  c10::weak_intrusive_ptr<c10::StorageImpl> source_;  // no other storage gets the address
  c10::Storage on_device_;                            // empty while only the host has the bytes
  at::Tensor on_host_;
  c10::Stream owner_;  // of the memory on the device
  c10::Event copied_;  // the last copy has ended
  bool is_back_ = false;
};

}  // namespace

/// The storages that an OffloadedActivations moves. Forward adds storages; threads of backward use them.
class ActivationStore {
 public:
  ActivationStore(const torch::nn::Module& model, Device device)
      : device_(device), in_(stream_of_pool(c10::Device(device))), out_(stream_of_pool(c10::Device(device))) {
    for (const auto& [name, tensor] : named_tensors(model)) stays_.insert(tensor.storage().unsafeGetStorageImpl());
  }

  /// Null if the tensor stays on the device.
  std::shared_ptr<MovedStorage> move(const at::Tensor& tensor) {
    if (!moves(tensor)) return nullptr;
    const std::lock_guard lock(mutex_);
    std::weak_ptr<MovedStorage>& known = known_[tensor.storage().unsafeGetStorageImpl()];
    if (auto moved = known.lock(); moved && moved->version() == tensor._version()) return moved;
    auto moved = std::make_shared<MovedStorage>(tensor, all_.size(), current_stream(device_), out_);
    known = moved;
    all_.push_back(moved);
    bytes_ += moved->bytes();
    const auto leaving = all_.size() > kWindow ? all_[all_.size() - 1 - kWindow].lock() : nullptr;
    if (leaving) leaving->leave();
    return moved;
  }
  c10::Storage use(MovedStorage& moved) {
    const std::lock_guard lock(mutex_);
    const c10::Stream user = current_stream(device_);
    c10::Storage storage = moved.use(user, in_);
    std::size_t ahead = 0;
    for (std::size_t i = moved.number(); i-- > 0 && ahead < kWindow;) {
      const auto next = all_[i].lock();
      if (!next) continue;
      next->come_back(user, in_);
      ++ahead;
    }
    return storage;
  }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }

 private:
  [[nodiscard]] bool moves(const at::Tensor& tensor) const {
    if (tensor.device() != c10::Device(device_) || tensor.layout() != at::kStrided || !tensor.has_storage())
      return false;
    if (tensor.is_nested() || tensor.is_conj() || tensor.is_neg()) return false;
    if (stays_.contains(tensor.storage().unsafeGetStorageImpl())) return false;
    const std::size_t bytes = tensor.storage().nbytes();
    return bytes >= kLeastBytes && kLeastPart * tensor.nbytes() >= bytes && !is_cast_parameter(tensor);
  }

  Device device_;
  c10::Stream in_, out_;
  std::unordered_set<const c10::StorageImpl*> stays_;
  std::mutex mutex_;
  std::unordered_map<const c10::StorageImpl*, std::weak_ptr<MovedStorage>> known_;
  std::vector<std::weak_ptr<MovedStorage>> all_;  // [MovedStorage::number()]
  std::uint64_t bytes_ = 0;
};

namespace {

thread_local std::shared_ptr<ActivationStore> active;

/// A tensor that autograd has saved.
class SavedTensor final : public SavedVariableHooks {
 public:
  explicit SavedTensor(std::shared_ptr<ActivationStore> store) : store_(std::move(store)) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    counter_ = torch::autograd::impl::version_counter(tensor);
    version_ = tensor._version();
    moved_ = store_->move(tensor);
    if (!moved_) {
      kept_ = tensor.tensor_data();
      return;
    }
    make_ = [options = tensor.options(), offset = tensor.storage_offset(), sizes = tensor.sizes().vec(),
             strides = tensor.strides().vec()](const c10::Storage& storage) {
      return at::empty({0}, options).set_(storage, offset, sizes, strides);
    };
  }
  at::Tensor call_unpack_hook() override {
    const at::NoGradGuard no_grad;
    if (const auto now = counter_.current_version(); now != version_) {  // libtorch checks only tensors without hooks
      throw UsageError("a tensor needed for backward was modified in place: it is at version " + std::to_string(now) +
                       ", and was saved at version " + std::to_string(version_));
    }
    return moved_ ? make_(store_->use(*moved_)) : kept_;
  }

 private:
  std::shared_ptr<ActivationStore> store_;
  std::shared_ptr<MovedStorage> moved_;
  std::function<at::Tensor(const c10::Storage&)> make_;
  at::Tensor kept_;  // without grad_fn, which would make a cycle
  c10::VariableVersion counter_;
  std::uint32_t version_ = 0;
};

/// libtorch asks its engine for hooks each time that it saves a tensor. Backward itself moves nothing.
class EngineWithHooks final : public Engine {
 public:
  /// The first backward of a process starts the threads of its engine, and none of another engine.
  EngineWithHooks() {
    if (!(get_default_engine().*&EngineWithHooks::device_ready_queues_).empty()) start_device_threads();
  }

 private:
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    const bool moves = active && torch::autograd::get_current_graph_task_id() < 0;
    return moves ? std::make_unique<SavedTensor>(active) : nullptr;
  }
};

Engine& engine_with_hooks() {
  static auto& engine = *new EngineWithHooks;  // never destroyed: its threads may outlive static objects
  return engine;
}

/// A backward that is running would wait forever in its old thread for what it starts in the new engine.
bool install_engine() {
  if (torch::autograd::get_current_graph_task_id() >= 0) {
    throw UsageError("the first OffloadedActivations cannot be made in a backward: make one before");
  }
  static_cast<void>(engine_with_hooks());  // made while libtorch's engine is the default
  torch::autograd::set_default_engine_stub(&engine_with_hooks);
  return true;
}

}  // namespace

OffloadedActivations::OffloadedActivations(const torch::nn::Module& model, Device device) {
  if (device.type == DeviceType::kCpu) return;
  static const bool installed = install_engine();
  static_cast<void>(installed);
  store_ = std::make_shared<ActivationStore>(model, device);
  previous_ = std::exchange(active, store_);
}

OffloadedActivations::~OffloadedActivations() {
  if (store_) active = previous_;
}

std::uint64_t OffloadedActivations::bytes_moved() const noexcept { return store_ ? store_->bytes() : 0; }

}  // namespace mn
