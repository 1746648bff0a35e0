#include <mn/sharding/parameter_uses.hpp>

#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/ConstantSymNodeImpl.h>
#include <torch/library.h>

namespace mn {
namespace {

constexpr c10::DispatchKey kKey = c10::DispatchKey::TESTING_ONLY_GenericWrapper;  // unused in libtorch's operators

std::shared_mutex watchers_mutex;
std::unordered_map<const c10::StorageImpl*, std::shared_ptr<const ParameterUse::Watcher>>& watchers() {
  static auto* const all =
      new std::unordered_map<const c10::StorageImpl*, std::shared_ptr<const ParameterUse::Watcher>>();
  return *all;  // never destroyed: a parameter may outlive the static objects
}

/// Calls the tensor's watcher. Clears `kind.is_first` if the tensor is watched.
void notify(const at::Tensor& tensor, ParameterUse::Kind& kind) {
  if (!tensor.defined() || !tensor.key_set().has(kKey) || !tensor.has_storage()) return;
  std::shared_ptr<const ParameterUse::Watcher> watcher;
  {
    const std::shared_lock lock(watchers_mutex);
    const auto found = watchers().find(tensor.storage().unsafeGetStorageImpl());
    if (found != watchers().end()) watcher = found->second;
  }
  if (!watcher) return;
  (*watcher)(kind);
  kind.is_first = false;
}

/// False for operators that read only a tensor's shape, or make an alias of the tensor (invariant 2).
bool reads_elements(const c10::OperatorHandle& op) {
  static const std::unordered_set<std::string_view> others = {
      "aten::detach",         "aten::detach_",     "aten::alias",       "aten::data",
      "aten::set_data",       "aten::is_leaf",     "aten::output_nr",   "aten::_version",
      "aten::requires_grad_", "aten::retain_grad", "aten::is_same_size"};
  return !others.contains(op.operator_name().name);
}

void before_operator(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (reads_elements(op)) {
    const std::vector<c10::Argument>& arguments = op.schema().arguments();
    const auto values = torch::jit::last(*stack, arguments.size());
    ParameterUse::Kind kind = {.writes = false, .is_first = true};
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
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
}

TORCH_LIBRARY_IMPL(_, TESTING_ONLY_GenericWrapper, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&before_operator>());
}

/// The size of a storage without memory. torch::save() bypasses operators and asks for the size; libtorch then throws,
/// because the size is a symbol. With a size of 0 bytes torch::save() would silently store nothing.
const c10::SymInt& unreadable_size() {
  static const c10::SymInt size(c10::SymNode(c10::make_intrusive<c10::ConstantSymNodeImpl<std::int64_t>>(0)));
  return size;
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

ParameterUse::ParameterUse(const at::Tensor& parameter, Watcher watcher)
    : parameter_(parameter),
      storage_(c10::Storage::use_byte_size_t(), 0, at::DataPtr(nullptr, parameter.device()),
               parameter.storage().allocator(), /*resizable=*/false) {
  replace_storage(parameter_, storage_, true);
  const std::unique_lock lock(watchers_mutex);
  watchers()[storage_.unsafeGetStorageImpl()] = std::make_shared<const Watcher>(std::move(watcher));
}

ParameterUse::~ParameterUse() {
  {
    const std::unique_lock lock(watchers_mutex);
    watchers().erase(storage_.unsafeGetStorageImpl());
  }
  replace_storage(parameter_, storage_, false);
}

void ParameterUse::set_memory(const at::Tensor& memory) {
  c10::StorageImpl* const storage = storage_.unsafeGetStorageImpl();
  if (!memory.defined()) {
    storage->set_data_ptr_noswap(at::DataPtr(nullptr, storage->device()));
    storage->set_nbytes(unreadable_size());
    return;
  }
  void* const data = memory.mutable_data_ptr();
  auto* const owner = new c10::Storage(memory.storage());  // keeps the memory alive
  storage->set_data_ptr_noswap(at::DataPtr(
      data, owner, [](void* kept) { delete static_cast<c10::Storage*>(kept); }, memory.device()));
  storage->set_nbytes(memory.nbytes());
}

}  // namespace mn
