// Each rank sends its results to rank 0, one field after another. Rank 0 puts the rows in the order of the samples.
#include <mn/trainer/sample_results.hpp>

#include <algorithm>
#include <numeric>
#include <span>
#include <utility>

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <mn/core/error.hpp>
#include <mn/core/json.hpp>
#include <mn/core/text.hpp>

namespace mn {
namespace {

using nlohmann::json;

/// Returns the form of `field`: dtype, shape of a row, and whether there are offsets, but no rows.
BatchField form_of(const BatchField& field) {
  std::vector<std::int64_t> shape = field.values.sizes().vec();
  shape[0] = 0;
  BatchField form{field.name, at::empty(shape, field.values.scalar_type())};
  if (field.offsets.defined()) form.offsets = at::zeros({1}, at::kLong);
  return form;
}

json to_json(const BatchField& form) {
  return {{"name", form.name},
          {"dtype", static_cast<int>(form.values.scalar_type())},
          {"shape", form.values.sizes().vec()},
          {"ragged", form.offsets.defined()}};
}

BatchField form_from(const json& form) {
  const auto dtype = static_cast<at::ScalarType>(form.at("dtype").get<int>());
  BatchField field{form.at("name").get<std::string>(),
                   at::empty(form.at("shape").get<std::vector<std::int64_t>>(), dtype)};
  if (form.at("ragged").get<bool>()) field.offsets = at::zeros({1}, at::kLong);
  return field;
}

/// Describes a rank's fields for an error message, for instance "score: Float [3], box: Float [any number, 4]".
std::string describe(const json& forms) {
  return join(forms, ", ", [](const json& form) {
    std::vector<json> shape = form.at("shape");
    shape.erase(shape.begin());
    if (form.at("ragged").get<bool>()) shape.insert(shape.begin(), "any number");
    return form.at("name").get<std::string>() + ": " + toString(form_from(form).values.scalar_type()) + " " +
           json(shape).dump();
  });
}

void check_field(const BatchField& field, std::int64_t samples) {
  const auto fail = [&](const std::string& why) {
    throw ArgumentError("the results \"" + field.name + "\" of a minibatch " + why);
  };
  if (!field.values.defined() || field.values.dim() == 0) fail("have no first dimension of samples or rows");
  const bool is_ragged = field.offsets.defined();
  const std::int64_t found = is_ragged ? field.offsets.numel() - 1 : field.values.size(0);
  if (found != samples) {
    fail("are of " + std::to_string(found) + " samples, but it has " + std::to_string(samples));
  }
  if (is_ragged && field.offsets[-1].item<std::int64_t>() != field.values.size(0)) {
    fail("have offsets up to " + std::to_string(field.offsets[-1].item<std::int64_t>()) + " for " +
         std::to_string(field.values.size(0)) + " rows");
  }
}

/// Collective. Rank 0 gets the rows `own` of all ranks in rank order; `own` is contiguous and on the CPU.
at::Tensor gather_rows(Communicator& comm, const at::Tensor& own) {
  const std::int64_t rows = own.size(0);
  std::vector<std::int64_t> all(static_cast<std::size_t>(comm.size()));
  comm.allgather(std::span(&rows, 1), all);
  std::vector<std::int64_t> shape = own.sizes().vec();
  shape[0] = comm.rank() == 0 ? std::reduce(all.begin(), all.end()) : 0;
  at::Tensor gathered = at::empty(shape, own.options());
  const std::int64_t row_bytes = own.itemsize() * c10::multiply_integers(own.sizes().slice(1));
  std::vector<std::size_t> bytes;
  for (const std::int64_t count : all) bytes.push_back(static_cast<std::size_t>(count * row_bytes));
  const auto view_of = [](const at::Tensor& tensor) {
    return BufferView(tensor.mutable_data_ptr(), tensor.nbytes(), DType::kUInt8);
  };
  comm.gatherv(view_of(own), view_of(gathered), bytes);
  return gathered;
}

/// Joins the rows of all tensors. `none` has the form of a row, but no rows.
at::Tensor concatenated(const at::Tensor& none, std::vector<at::Tensor> tensors) {
  return tensors.empty() ? none : at::cat(tensors);
}

/// Returns the positions in `samples`, sorted by the numbers there; of equal numbers, only one position.
std::vector<std::int64_t> order_of(const std::vector<std::int64_t>& samples) {
  const auto number = [&](std::int64_t position) { return samples[static_cast<std::size_t>(position)]; };
  std::vector<std::int64_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  std::ranges::stable_sort(order, {}, number);
  const auto repeats = std::ranges::unique(order, {}, number);
  order.erase(repeats.begin(), repeats.end());
  return order;
}

/// Returns the rows of the samples in `order`. The sample at position p has counts[p] of the `values`.
BatchField ordered(const std::string& name, const at::Tensor& values, const at::Tensor& counts,
                   const std::vector<std::int64_t>& order) {
  const at::Tensor ends = counts.cumsum(0);
  std::vector<std::int64_t> rows, offsets = {0};
  std::int64_t longest = 0;
  for (const std::int64_t position : order) {
    const std::int64_t count = counts.const_data_ptr<std::int64_t>()[position];
    const std::int64_t first = ends.const_data_ptr<std::int64_t>()[position] - count;
    for (std::int64_t i = 0; i < count; ++i) rows.push_back(first + i);
    offsets.push_back(std::ssize(rows));
    longest = std::max(longest, count);
  }
  return {name, values.index_select(0, at::tensor(rows, at::kLong)), at::tensor(offsets, at::kLong), longest};
}

}  // namespace

void SampleResults::add(const Batch& batch, const std::vector<BatchField>& fields) {
  if (std::ssize(batch.indices) != batch.samples) {
    throw ArgumentError("results can't be ordered by sample: the iterator's minibatches have no Batch::indices");
  }
  const bool is_first = fields_.empty();
  json forms = json::array();
  for (const BatchField& field : fields) {
    check_field(field, batch.samples);
    forms.push_back(to_json(form_of(field)));
    if (is_first) fields_.push_back({form_of(field), {}, {}});
  }
  if (forms != this->forms()) {
    throw ArgumentError("the results of a minibatch have other fields (" + describe(forms) + ") than those before (" +
                        describe(this->forms()) + ")");
  }
  for (std::size_t i = 0; i < fields.size(); ++i) {
    fields_[i].values.push_back(fields[i].values.detach().to(at::kCPU, false, /*copy=*/true).contiguous());
    if (fields[i].offsets.defined()) fields_[i].counts.push_back(fields[i].offsets.to(at::kCPU, at::kLong).diff());
  }
  samples_.insert(samples_.end(), batch.indices.begin(), batch.indices.end());
}

json SampleResults::forms() const {
  json forms = json::array();
  for (const Field& field : fields_) forms.push_back(to_json(field.form));
  return forms;
}

/// Collective. A rank without results gets empty fields, to take part in gather().
void SampleResults::agree_on_fields(Communicator& comm) {
  const std::vector<json> all = comm.allgather_obj(forms());
  const auto first = std::ranges::find_if(all, [](const json& forms) { return !forms.empty(); });
  if (first == all.end()) return;
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty() || all[rank] == *first) continue;
    throw ArgumentError("the results of rank " + std::to_string(rank) + " have other fields (" + describe(all[rank]) +
                            ") than those of rank " + std::to_string(first - all.begin()) + " (" + describe(*first) +
                            ")",
                        true);
  }
  if (!fields_.empty()) return;
  for (const json& form : *first) fields_.push_back({form_from(form), {}, {}});
}

Batch SampleResults::gather(Communicator& comm) {
  agree_on_fields(comm);
  SampleResults all;
  const at::Tensor samples = gather_rows(comm, at::tensor(samples_, at::kLong));
  const std::span numbers(samples.const_data_ptr<std::int64_t>(), static_cast<std::size_t>(samples.numel()));
  all.samples_.assign(numbers.begin(), numbers.end());
  for (Field& field : fields_) {
    Field& gathered = all.fields_.emplace_back(Field{field.form, {}, {}});
    gathered.values = {gather_rows(comm, concatenated(field.form.values, std::exchange(field.values, {})))};
    if (!field.form.offsets.defined()) continue;
    gathered.counts = {gather_rows(comm, concatenated(at::empty({0}, at::kLong), field.counts))};
  }
  *this = {};
  return comm.rank() == 0 ? all.take() : Batch();
}

Batch SampleResults::take() {
  const std::vector<std::int64_t> order = order_of(samples_);
  Batch batch;
  batch.samples = std::ssize(order);
  for (const std::int64_t position : order) batch.indices.push_back(samples_[static_cast<std::size_t>(position)]);
  for (Field& field : fields_) {
    const at::Tensor values = concatenated(field.form.values, std::exchange(field.values, {}));
    if (field.form.offsets.defined()) {
      const at::Tensor counts = concatenated(at::empty({0}, at::kLong), field.counts);
      batch.fields.push_back(ordered(field.form.name, values, counts, order));
    } else {
      batch.fields.push_back({field.form.name, values.index_select(0, at::tensor(order, at::kLong))});
    }
  }
  if (!batch.fields.empty()) batch.data = batch.fields[0].values;
  if (batch.fields.size() > 1) batch.target = batch.fields[1].values;
  *this = {};
  return batch;
}

BatchField ragged_field(std::string name, const std::vector<at::Tensor>& rows) {
  if (rows.empty()) throw ArgumentError("the results \"" + name + "\" are of no sample");
  std::vector<std::int64_t> offsets = {0};
  std::int64_t longest = 0;
  try {
    for (const at::Tensor& each : rows) {
      offsets.push_back(offsets.back() + each.size(0));
      longest = std::max(longest, each.size(0));
    }
    return {name, at::cat(rows), at::tensor(offsets, at::kLong), longest};
  } catch (const c10::Error& error) {
    throw ArgumentError(
        "the results \"" + name +
        "\" need a tensor [any number, …] for each sample, with equal rows: " + error.what_without_backtrace());
  }
}

}  // namespace mn
