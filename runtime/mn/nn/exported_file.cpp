#include <mn/nn/exported_file.hpp>

#include <map>
#include <utility>
#include <vector>

#include <mn/comm/communicator.hpp>
#include <mn/comm/on_root.hpp>
#include <mn/core/error.hpp>
#include <mn/core/file.hpp>
#include <mn/core/json.hpp>
#include <mn/nn/exported/archive.hpp>
#include <mn/nn/exported/program.hpp>
#include <mn/nn/exported/read_tensor.hpp>
#include <mn/tensor/tensor.hpp>

namespace mn {
namespace {

using exported::Archive;
using exported::Program;

std::shared_ptr<const Archive> open_archive(const std::filesystem::path& path) {
  return std::make_shared<const Archive>(std::make_shared<const File>(path, File::Mode::kRead));
}

std::shared_ptr<const Program> parse(const Archive& archive) {
  return std::make_shared<const Program>(exported::parse_program(archive));
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

ExportedFile::ExportedFile(const std::filesystem::path& path)
    : archive_(open_archive(path)), program_(parse(*archive_)) {}

ExportedFile::ExportedFile(std::string_view bytes, const std::string& source)
    : archive_(std::make_shared<const Archive>(bytes, source)), program_(parse(*archive_)) {}

ExportedFile::ExportedFile(const std::filesystem::path& path, std::shared_ptr<Communicator> comm)
    : comm_(std::move(comm)), work_(std::make_shared<RootWork>(*comm_)) {
  nlohmann::json records;
  const auto open = [&] {
    archive_ = open_archive(path);
    program_ = parse(*archive_);
    check_tensors(*program_, *archive_);
    records = archive_->program_records();
  };
  on_root<DataError>(*comm_, open, true);
  records = comm_->bcast_obj(records);
  if (archive_) return;
  archive_ = std::make_shared<const Archive>(records.get<std::map<std::string, std::string>>(), path.string());
  program_ = parse(*archive_);
}

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
