#include <algorithm>
#include <cstring>
#include <limits>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/train/on_root.hpp>
#include <mn/train/safetensors.hpp>

namespace mn {
namespace {

using nlohmann::json;

constexpr std::uint64_t kMostHeaderBytes = 100'000'000;  // the reference implementation's limit

constexpr std::pair<at::ScalarType, const char*> kDtypes[] = {
    {at::kDouble, "F64"}, {at::kFloat, "F32"}, {at::kHalf, "F16"}, {at::kBFloat16, "BF16"}, {at::kLong, "I64"},
    {at::kInt, "I32"},    {at::kShort, "I16"}, {at::kChar, "I8"},  {at::kByte, "U8"},       {at::kBool, "BOOL"}};

std::string name_of_dtype(const std::string& name, at::ScalarType type) {
  for (const auto& [known, text] : kDtypes) {
    if (known == type) return text;
  }
  throw ArgumentError("tensor \"" + name + "\" of dtype " + toString(type) + " can't be saved as safetensors");
}

std::string shape_text(at::IntArrayRef shape) { return json(shape.vec()).dump(); }

std::size_t bytes_of(const at::Tensor& tensor) {
  return static_cast<std::size_t>(tensor.numel()) * tensor.element_size();
}

/// Wide elements first, so that each tensor is aligned; then by name.
NamedTensors in_file_order(NamedTensors tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const auto& a, const auto& b) {
    const auto wide = [](const auto& named) { return named.second.element_size(); };
    return wide(a) != wide(b) ? wide(a) > wide(b) : a.first < b.first;
  });
  return tensors;
}

/// One file being parsed; every message names it.
class Parser {
 public:
  Parser(std::string_view bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  NamedTensors parse() {
    std::uint64_t header_bytes = 0;
    if (bytes_.size() < sizeof header_bytes) fail("is cut off: it has " + std::to_string(bytes_.size()) + " bytes");
    std::memcpy(&header_bytes, bytes_.data(), sizeof header_bytes);
    if (header_bytes > kMostHeaderBytes || header_bytes > bytes_.size() - sizeof header_bytes) {
      fail("is cut off, or is no safetensors file");
    }
    const json header = json::parse(bytes_.substr(sizeof header_bytes, header_bytes), nullptr, false);
    if (!header.is_object()) fail("is no safetensors file: its header is no JSON object");
    data_ = bytes_.substr(sizeof header_bytes + header_bytes);
    return read_tensors(header);
  }

 private:
  struct Piece {
    std::uint64_t begin;
    std::uint64_t end;
    std::string name;
    at::Tensor tensor;
  };

  NamedTensors read_tensors(const json& header) {
    std::vector<Piece> pieces;
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      try {
        pieces.push_back(read_tensor(name, entry));
      } catch (const json::exception& error) {
        fail("has a malformed entry for tensor \"" + name + "\" (" + error.what() + ")");
      }
    }
    std::sort(pieces.begin(), pieces.end(),
              [](const Piece& a, const Piece& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
    NamedTensors tensors;
    std::uint64_t covered = 0;
    for (Piece& piece : pieces) {
      if (piece.begin != covered) fail("has a gap or an overlap before tensor \"" + piece.name + "\"");
      covered = piece.end;
      tensors.emplace_back(std::move(piece.name), std::move(piece.tensor));
    }
    if (covered != data_.size()) {
      fail("holds " + std::to_string(data_.size()) + " bytes of data where its header speaks of " +
           std::to_string(covered));
    }
    return tensors;
  }

  Piece read_tensor(const std::string& name, const json& entry) {
    const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
    const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
    const auto shape = entry.at("shape").get<std::vector<std::int64_t>>();
    const auto dtype = entry.at("dtype").get<std::string>();
    const auto known =
        std::find_if(std::begin(kDtypes), std::end(kDtypes), [&](const auto& d) { return dtype == d.second; });
    if (known == std::end(kDtypes)) fail("holds tensor \"" + name + "\" of an unknown dtype \"" + dtype + "\"");
    if (begin > end || end > data_.size()) fail("is cut off: tensor \"" + name + "\" lies beyond its end");
    if (bytes_for(name, shape, c10::elementSize(known->first)) != end - begin) {
      fail("gives tensor \"" + name + "\" " + std::to_string(end - begin) + " bytes, which is not " + dtype + " " +
           shape_text(shape));
    }
    at::Tensor tensor = at::empty(shape, known->first);
    if (end > begin) std::memcpy(tensor.data_ptr(), data_.data() + begin, end - begin);
    return {begin, end, name, std::move(tensor)};
  }

  std::uint64_t bytes_for(const std::string& name, const std::vector<std::int64_t>& shape, std::size_t element) {
    std::uint64_t bytes = element;
    for (const std::int64_t extent : shape) {
      const auto factor = static_cast<std::uint64_t>(extent);
      if (extent < 0 || (factor != 0 && bytes > std::numeric_limits<std::int64_t>::max() / factor)) {
        fail("gives tensor \"" + name + "\" the impossible shape " + shape_text(shape));
      }
      bytes *= factor;
    }
    return bytes;
  }

  [[noreturn]] void fail(const std::string& how) const { throw DataError(source_ + " " + how); }

  std::string_view bytes_;
  std::string_view data_;
  const std::string& source_;
};

void check_same(const std::string& name, const at::Tensor& wanted, const at::Tensor& given, const std::string& source) {
  if (given.sizes() == wanted.sizes() && given.scalar_type() == wanted.scalar_type()) return;
  throw DataError(source + " is of another model: \"" + name + "\" is " + toString(given.scalar_type()) + " " +
                  shape_text(given.sizes()) + " there and " + toString(wanted.scalar_type()) + " " +
                  shape_text(wanted.sizes()) + " in this one");
}

}  // namespace

std::string to_safetensors(const NamedTensors& tensors, const std::map<std::string, std::string>& metadata) {
  const NamedTensors ordered = in_file_order(tensors);
  json header = json::object();
  if (!metadata.empty()) header["__metadata__"] = metadata;
  std::size_t end = 0;
  for (const auto& [name, tensor] : ordered) {
    const std::size_t begin = end;
    end += bytes_of(tensor);
    header[name] = {{"dtype", name_of_dtype(name, tensor.scalar_type())},
                    {"shape", tensor.sizes().vec()},
                    {"data_offsets", {begin, end}}};
  }
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');  // the data begins 8-byte aligned

  const std::uint64_t header_bytes = text.size();
  std::string file(reinterpret_cast<const char*>(&header_bytes), sizeof header_bytes);
  file.reserve(sizeof header_bytes + text.size() + end);
  file += text;
  for (const auto& [name, tensor] : ordered) {
    const at::Tensor dense = tensor.detach().to(at::kCPU).contiguous();
    if (dense.numel() > 0) file.append(static_cast<const char*>(dense.data_ptr()), bytes_of(dense));
  }
  return file;
}

NamedTensors from_safetensors(std::string_view bytes, const std::string& source) {
  return Parser(bytes, source).parse();
}

void copy_into(torch::nn::Module& module, const NamedTensors& tensors, const std::string& source) {
  std::map<std::string, at::Tensor> given(tensors.begin(), tensors.end());
  const NamedTensors own = named_tensors(module);
  for (const auto& [name, tensor] : own) {
    const auto found = given.find(name);
    // Files from before batch normalization counted its minibatches lack that; only a momentum of none reads it.
    if (found == given.end() && name.ends_with(".num_batches_tracked")) {
      given.emplace(name, at::zeros_like(tensor));
      continue;
    }
    if (found == given.end()) throw DataError(source + " is of another model: it lacks \"" + name + "\"");
    check_same(name, tensor, found->second, source);
  }
  if (given.size() > own.size()) {
    for (const auto& [name, tensor] : own) given.erase(name);
    throw DataError(source + " is of another model: it holds \"" + given.begin()->first + "\", which this one lacks");
  }
  const at::NoGradGuard no_grad;
  for (const auto& [name, tensor] : own) at::Tensor(tensor).copy_(given.at(name));
}

void save_model(const std::filesystem::path& path, const torch::nn::Module& module, Communicator& comm) {
  on_root<DataError>(
      comm,
      [&] {
        write_file(path, to_safetensors(named_tensors(module), {{"format", "pt"}}));
      },
      true);
}

void load_model(const std::filesystem::path& path, torch::nn::Module& module, Communicator& comm) {
  on_root<DataError>(
      comm, [&] { copy_into(module, from_safetensors(read_file(path), path.string()), path.string()); }, true);
  comm.broadcast_data(module);
}

}  // namespace mn
