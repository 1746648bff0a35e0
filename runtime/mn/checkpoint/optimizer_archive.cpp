#include <mn/checkpoint/optimizer_archive.hpp>

#include <torch/optim/optimizer.h>
#include <torch/serialize/archive.h>

#include <mn/core/classic_stream.hpp>

namespace mn {

std::string optimizer_bytes(const torch::optim::Optimizer& optimizer) {
  torch::serialize::OutputArchive archive;
  optimizer.save(archive);
  OutText bytes;
  archive.save_to(bytes);
  return std::move(bytes).str();
}

bool is_empty_archive(std::string_view bytes) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size());
  return archive.keys().empty();
}

void load_optimizer(torch::optim::Optimizer& optimizer, std::string_view bytes, c10::Device device) {
  torch::serialize::InputArchive archive;
  archive.load_from(bytes.data(), bytes.size(), device);
  optimizer.load(archive);
}

}  // namespace mn
