#include <mn/sharding/parameter_uses.hpp>

#include <algorithm>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ConstantSymNodeImpl.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <mn/core/error.hpp>

namespace mn {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;  // unused in libtorch's operators

struct Watched {
  std::shared_ptr<const ParameterUse::Watcher> watcher;
  c10::ScalarType type;
  std::map<c10::ScalarType, c10::Storage> copies = {};  // of a parameter: the storages of autocast's copies (3)
};

std::shared_mutex watched_mutex;
std::unordered_map<const c10::StorageImpl*, std::shared_ptr<const Watched>>& all_watched() {
  static auto* const all = new std::unordered_map<const c10::StorageImpl*, std::shared_ptr<const Watched>>();
  return *all;  // never destroyed: a parameter may outlive the static objects
}

/// Returns null if the tensor is not watched.
std::shared_ptr<const Watched> find_watched(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.key_set().has(kKey) || !tensor.has_storage()) return nullptr;
  const std::shared_lock lock(watched_mutex);
  const auto found = all_watched().find(tensor.storage().unsafeGetStorageImpl());
  return found == all_watched().end() ? nullptr : found->second;
}

/// Calls the tensor's watcher. Clears `kind.is_first` if the tensor is watched.
void notify(const at::Tensor& tensor, ParameterUse::Kind& kind) {
  const auto watched = find_watched(tensor);
  if (!watched) return;
  kind.type = watched->type;
  (*watched->watcher)(kind);
  kind.is_first = false;
}

/// False for operators that read only a tensor's shape, or return a view (2). An operator that may return either a view
/// or a copy calls another operator for the copy.
bool reads_elements(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> others = {
      "aten::data",           "aten::set_data",    "aten::is_leaf",      "aten::output_nr", "aten::_version",
      "aten::requires_grad_", "aten::retain_grad", "aten::is_same_size", "aten::detach_"};
  const auto is_view = [](const c10::Argument& result) {
    return result.alias_info() != nullptr && !result.alias_info()->isWrite();
  };
  return std::ranges::none_of(op.schema().returns(), is_view) && !others.contains(op.operator_name().name);
}

void notify_all(const c10::OperatorHandle& op, const torch::jit::Stack& stack) {
  const std::vector<c10::Argument>& arguments = op.schema().arguments();
  const auto values = torch::jit::last(stack, arguments.size());
  ParameterUse::Kind kind = {.writes = false, .is_first = true, .type = {}};
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const c10::AliasInfo* const alias = arguments[i].alias_info();
    kind.writes = alias != nullptr && alias->isWrite();
    if (values[i].isTensor()) {
      notify(values[i].toTensor(), kind);
    } else if (values[i].isTensorList()) {
      for (const at::Tensor& tensor : values[i].toTensorVector()) notify(tensor, kind);
    } else if (values[i].isOptionalTensorList()) {
      for (const std::optional<at::Tensor>& tensor : values[i].toOptionalTensorVector()) {
        if (tensor) notify(*tensor, kind);
      }
    }
  }
}

thread_local bool in_autocast = false;  // an operator runs with autocast

class AutocastOperator {
 public:
  AutocastOperator() : before_(std::exchange(in_autocast, true)) {}
  ~AutocastOperator() { in_autocast = before_; }
  AutocastOperator(const AutocastOperator&) = delete;
  AutocastOperator& operator=(const AutocastOperator&) = delete;

 private:
  bool before_;
};

/// Autocast's conversion of a float32 parameter, or of a view, to a copy whose memory set_memory() sets.
class ConvertParameter : public torch::autograd::Function<ConvertParameter> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& tensor,
                            const c10::Storage& storage, c10::ScalarType type) {
    context->set_materialize_grads(false);  // a parameter without a gradient keeps none
    at::Tensor copy = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), tensor.key_set(),
                                                               c10::scalarTypeToTypeMeta(type));
    copy.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
    return copy;
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* /*context*/,
                                                 const torch::autograd::variable_list& gradients) {
    return {gradients[0].defined() ? gradients[0].to(at::kFloat) : at::Tensor(), {}, {}};
  }
};

/// (3): in place of the operator, makes the copy of a watched tensor for which autocast calls to(). False if the
/// operator is another one, or must copy the elements.
bool make_copy(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  if (!in_autocast || op.operator_name().name != "aten::to" || op.operator_name().overload_name != "dtype")
    return false;
  const auto arguments = torch::jit::last(*stack, op.schema().arguments().size());
  const at::Tensor tensor = arguments[0].toTensor();
  const c10::ScalarType type = arguments[1].toScalarType();
  const auto watched = find_watched(tensor);
  if (!watched || !watched->copies.contains(type) || !tensor.is_non_overlapping_and_dense()) return false;
  if (!(*watched->watcher)({.writes = false, .is_first = false, .type = type, .copies = true})) return false;
  torch::jit::drop(*stack, op.schema().arguments().size());
  torch::jit::push(*stack, ConvertParameter::apply(tensor, watched->copies.at(type), type));
  return true;
}

void before_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const c10::DispatchKeySet rest = keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey);
  if (keys.has_any(c10::autocast_dispatch_keyset)) {
    // Autocast converts the arguments, and calls the operator again: the second call tells the type of the use.
    const AutocastOperator scope;
    return op.redispatchBoxed(rest, stack);
  }
  if (make_copy(op, stack)) return;
  if (reads_elements(op)) notify_all(op, *stack);
  op.redispatchBoxed(rest, stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&before_operator>());
}

/// The size of a storage without memory, with which libtorch makes views. torch::save() bypasses operators and asks for
/// the size; libtorch then throws, because the size is a symbol.
c10::SymInt unreadable_size(std::int64_t bytes) {
  return c10::SymInt(c10::SymNode(c10::make_intrusive<c10::ConstantSymNodeImpl<std::int64_t>>(bytes)));
}

void unwatch(const c10::StorageImpl* storage) {
  const std::unique_lock lock(watched_mutex);
  all_watched().erase(storage);
}

/// Tensors may keep the storage, which has no memory. Watches their uses as long as the storage exists.
void watch_until_end(const c10::Storage& storage, Watched watched) {
  c10::StorageImpl* const own = storage.unsafeGetStorageImpl();
  {
    const std::unique_lock lock(watched_mutex);
    all_watched()[own] = std::make_shared<const Watched>(std::move(watched));
  }
  own->set_data_ptr_noswap(at::DataPtr(
      nullptr, own, [](void* ended) { unwatch(static_cast<const c10::StorageImpl*>(ended)); }, own->device()));
}

/// Gives the parameter another storage, and adds or removes the key. The tensor object, its version counter and its
/// hooks stay.
void replace_storage(const at::Tensor& parameter, const c10::Storage& storage, bool watched) {
  c10::DispatchKeySet keys = parameter.key_set().remove(c10::DispatchKey::ADInplaceOrView);
  keys = watched ? keys.add(kKey) : keys.remove(kKey);
  const at::Tensor data = at::detail::make_tensor<c10::TensorImpl>(c10::Storage(storage), keys, parameter.dtype());
  data.unsafeGetTensorImpl()->set_sizes_contiguous(parameter.sizes());
  at::Tensor(parameter).set_data(data);
}

}  // namespace

bool ParameterUse::watches_copies(const at::Tensor& parameter) {
  return parameter.scalar_type() == at::kFloat && parameter.dim() >= 2;
}

ParameterUse::ParameterUse(const at::Tensor& parameter, Watcher watcher) : parameter_(parameter) {
  std::vector<c10::ScalarType> types = {parameter.scalar_type()};
  if (watches_copies(parameter)) types.insert(types.end(), {at::kBFloat16, at::kHalf});
  const auto shared = std::make_shared<const Watcher>(std::move(watcher));
  for (const c10::ScalarType type : types) {
    storages_.emplace(type, c10::Storage(c10::Storage::use_byte_size_t(), 0, at::DataPtr(nullptr, parameter.device()),
                                         parameter.storage().allocator(), /*resizable=*/false));
    set_memory(type, {});
  }
  replace_storage(parameter_, storages_.at(types.front()), true);
  auto copies = storages_;
  copies.erase(types.front());
  const std::unique_lock lock(watched_mutex);
  for (const auto& [type, storage] : storages_) {
    all_watched()[storage.unsafeGetStorageImpl()] =
        std::make_shared<const Watched>(Watched{shared, type, type == types.front() ? copies : decltype(copies)()});
  }
}

ParameterUse::~ParameterUse() {
  const auto lost = std::make_shared<const Watcher>([](Kind) -> bool {
    throw UsageError(
        "a parameter was sharded, and its values ended with the optimizer: keep the optimizer while the model is in "
        "use, or end it while a mn::WholeParameters lives");
  });
  for (const auto& [type, storage] : storages_) {
    const bool has_memory = parameter_.numel() == 0 || storage.data() != nullptr;
    has_memory ? unwatch(storage.unsafeGetStorageImpl()) : watch_until_end(storage, {lost, type});
  }
  const c10::Storage& own = storages_.at(parameter_.scalar_type());
  if (parameter_.numel() == 0 || own.data() != nullptr) replace_storage(parameter_, own, false);
}

void ParameterUse::set_memory(c10::ScalarType type, const at::Tensor& memory) {
  const auto found = storages_.find(type);
  if (found == storages_.end()) return;
  c10::StorageImpl* const storage = found->second.unsafeGetStorageImpl();
  if (!memory.defined()) {
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
    storage->set_nbytes(unreadable_size(parameter_.numel() * static_cast<std::int64_t>(c10::elementSize(type))));
    return;
  }
  void* const data = memory.mutable_data_ptr();
  auto* const owner = new c10::Storage(memory.storage());  // keeps the memory alive
  storage->set_data_ptr_noswap(at::DataPtr(
      data, owner, [](void* kept) { delete static_cast<c10::Storage*>(kept); }, memory.device()));
  storage->set_nbytes(memory.nbytes());
}

}  // namespace mn
