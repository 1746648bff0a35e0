#include <mn/loader/batch.hpp>

#include <algorithm>

#include <ATen/ops/arange.h>
#include <ATen/ops/full.h>

#include <mn/core/error.hpp>
#include <mn/core/text.hpp>

namespace mn {

const at::Tensor& Batch::operator[](std::size_t position) const {
  if (position == 0) return data;
  if (position == 1 && target.defined()) return target;
  return field(position).values;
}

const BatchField& Batch::field(std::size_t position) const {
  if (position < fields.size()) return fields[position];
  throw ArgumentError("a minibatch of " + std::to_string(fields.size()) + " fields has no number " +
                      std::to_string(position));
}

const BatchField& Batch::field(std::string_view name) const {
  const auto found = std::ranges::find(fields, name, &BatchField::name);
  if (found != fields.end()) return *found;
  std::vector<std::string> names;
  for (const BatchField& field : fields) {
    if (!field.name.empty()) names.push_back(field.name);
  }
  throw ArgumentError("a minibatch has no field \"" + std::string(name) + "\", but " +
                      (names.empty() ? "none with a name" : join(names)));
}

at::Tensor Batch::padded(const BatchField& found, const at::Scalar& value) const {
  if (!found.offsets.defined()) {
    throw ArgumentError("field " + found.name + " of a minibatch has no offsets: its samples are equally long");
  }
  std::vector<std::int64_t> shape = {samples, found.longest};
  const auto row = found.values.sizes().slice(1);
  shape.insert(shape.end(), row.begin(), row.end());
  at::Tensor result = at::full(shape, value, found.values.options());
  if (found.values.numel() == 0) return result;
  const at::Tensor lengths = found.offsets.diff().unsqueeze(1);
  at::Tensor is_own = at::arange(found.longest, found.offsets.options()).unsqueeze(0).lt(lengths);
  for (std::size_t d = 0; d < row.size(); ++d) is_own = is_own.unsqueeze(-1);
  return result.masked_scatter_(is_own.expand(shape), found.values);
}

}  // namespace mn
