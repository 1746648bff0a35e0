#include <mn/nn/exported_file.hpp>

#include <map>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <mn/comm/communicator.hpp>
#include <mn/comm/on_every_rank.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/fd.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/compiled/package.hpp>
#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/program.hpp>
#include <mn/nn/exported/read_tensor.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using exported::Archive;
using exported::Program;

std::shared_ptr<const Archive> open_archive(const std::filesystem::path& path) {
  // The facts and the bytes come from one descriptor, because the path may lead to another file at any time.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat facts = {};
  const bool is_file = fd && ::fstat(fd.get(), &facts) == 0 && S_ISREG(facts.st_mode);
  auto archive = std::make_shared<const Archive>(
      is_file ? std::make_shared<const File>(fd.get(), 0, static_cast<std::uint64_t>(facts.st_size), path)
              : std::make_shared<const File>(path, File::Mode::kRead));  // throws
  const bool is_own = facts.st_uid == ::geteuid() || facts.st_uid == 0;
  if (archive->has(compiled::kMetadata) && (!is_own || (facts.st_mode & (S_IWGRP | S_IWOTH)) != 0)) {
    throw DataError(path.string() + " holds code, but another user owns it or may write to it: take a file that is " +
                    "your own or root's, after `chmod go-w`");
  }
  return archive;
}

/// Checks the tensors that the graph uses, of those that the file has.
void check_tensors(const Program& program, const Archive& archive) {
  for (const exported::Input& input : program.inputs) {
    const auto& tensors = exported::is_state(input) ? program.weights : program.constants;
    const auto found = tensors.find(input.target);
    if (found != tensors.end()) exported::check_tensor(input.target, found->second, archive);
  }
}

}  // namespace

ExportedFile::ExportedFile(const std::filesystem::path& path) : archive_(open_archive(path)) { load(); }

ExportedFile::ExportedFile(std::string_view bytes, const std::string& source)
    : archive_(std::make_shared<const Archive>(bytes, source)) {
  if (archive_->has(compiled::kMetadata)) throw DataError(source + " holds code, which is loaded from files only");
  load();
}

ExportedFile::ExportedFile(const std::filesystem::path& path, std::shared_ptr<Communicator> comm)
    : comm_(std::move(comm)), work_(std::make_shared<RootWork>(*comm_)) {
  nlohmann::json records;
  const auto open = [&] {
    archive_ = open_archive(path);
    check_tensors(exported::parse_program(*archive_), *archive_);
    records = archive_->program_records();
  };
  on_root<DataError>(*comm_, open, true);
  records = comm_->bcast_obj(records);
  if (!archive_) {
    archive_ = std::make_shared<const Archive>(records.get<std::map<std::string, std::string>>(), path.string());
  }
  load();
}

std::string ExportedFile::read_code(const std::string& name) const {
  if (!comm_) return archive_->record(name);
  std::string code;
  work_->attempt([&] { code = archive_->record(name); });
  return comm_->bcast_obj(code);
}

void ExportedFile::load() {
  auto program = std::make_shared<Program>(exported::parse_program(*archive_));
  if (archive_->has(compiled::kMetadata)) {
    nlohmann::json names = archive_->names("compiled/", ".so");
    if (comm_) names = comm_->bcast_obj(names);
    std::map<std::string, std::string> code;
    for (const auto& name : names.get<std::vector<std::string>>()) code[name] = read_code(name);
    agree();
    const auto make = [&] {
      package_ = std::make_shared<const compiled::Package>(*archive_, std::move(code));
      auto evaluation = std::make_shared<Program>(exported::parse_program(*archive_, exported::Part::kEvaluation));
      package_->connect(*program);
      package_->connect(*evaluation);
      evaluation_ = std::move(evaluation);
    };
    comm_ ? on_every_rank<DataError>(*comm_, make, true) : make();
  }
  program_ = std::move(program);
}

std::string ExportedFile::precision() const { return package_ ? package_->needs().precision : ""; }

nlohmann::json ExportedFile::network() const { return package_ ? package_->needs().network : nlohmann::json(); }

const std::string& ExportedFile::source() const { return archive_->source(); }

ExportedFile ExportedFile::without_values() const {
  ExportedFile file = *this;
  file.comm_ = nullptr;
  file.has_values_ = false;
  return file;
}

at::Tensor ExportedFile::read(const std::string& name, const exported::StoredTensor& stored, bool is_state) const {
  if (!has_values_) return exported::empty_tensor(stored, c10::kMeta);
  if (!comm_) return exported::read_tensor(name, stored, *archive_);
  at::Tensor tensor;
  work_->attempt([&] { tensor = exported::read_tensor(name, stored, *archive_); });
  if (!tensor.defined()) tensor = exported::empty_tensor(stored, c10::kCPU);
  comm_->broadcast_data(std::vector<at::Tensor>{tensor});  // before the tensor can be divided (construct_sharded())
  return is_state ? tensor : tensor.to(c10::Device(comm_->device()));
}

void ExportedFile::agree() const {
  if (comm_) work_->agree<DataError>(true);
}

}  // namespace mn
