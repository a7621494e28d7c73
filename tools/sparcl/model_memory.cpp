#include "tools/sparcl/model_memory.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <string_view>
#include <unordered_map>

#include "src/base/memory_size.hpp"
#include "src/base/settings.hpp"
#include "src/model/model_hash.hpp"
#include "src/model/text.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/part_choice.hpp"

namespace sparcl::tool {
namespace {

constexpr std::uint64_t kAlignment = 64;  // a line of the cache

std::uint64_t byte_count_of(const model::TensorSchema& tensor) {
  return *model::element_count(tensor) * element_bytes(tensor.datatype);
}

std::uint64_t place_of_next(std::uint64_t bytes) {
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

Result<model::ZeroMemory> allocate(std::uint64_t bytes) {
  if (const std::optional<std::string> folder = spill_folder()) {
    Result<model::ZeroMemory> memory = model::ZeroMemory::in_file(*folder, bytes);
    if (!memory.ok()) return memory.status().with_prefix("SPARCL_SPILL_FOLDER: ");
    return memory;
  }
  const std::uint64_t free = available_memory(Paging::kToSwap);
  if (bytes > free)
    return Status(Code::kOutOfMemory,
                  fmt::format("the tensors take {}, and {} of memory are free here: set "
                              "SPARCL_SPILL_FOLDER to a folder of a local disk, where they are "
                              "kept instead",
                              human_bytes(bytes), human_bytes(free)));
  return model::ZeroMemory::allocate(bytes);
}

std::string kind_of(const model::TensorSchema& tensor) {
  return fmt::format("{} [{}]", file_type(tensor), fmt::join(tensor.shape, ", "));
}

}  // namespace

std::optional<std::string> spill_folder() {
  std::string folder = setting("SPILL_FOLDER").text;
  return folder.empty() || folder == "none" ? std::nullopt : std::optional(std::move(folder));
}

Result<std::vector<std::size_t>> find_tensors(const model::Schema& schema,
                                              const model::Checkpoint& checkpoint) {
  std::unordered_map<std::string_view, std::size_t> by_name;
  for (std::size_t i = 0; i < checkpoint.schema().size(); ++i)
    by_name.emplace(checkpoint.schema()[i].name, i);
  std::vector<std::size_t> places;
  for (const model::TensorSchema& tensor : schema) {
    const auto found = by_name.find(tensor.name);
    if (found == by_name.end()) {
      return Status(Code::kMismatch, fmt::format("{}: tensor {} is missing", checkpoint.path(),
                                                 model::in_quotes(tensor.name)));
    }
    const model::TensorSchema& held = checkpoint.schema()[found->second];
    if (held != tensor) {
      return Status(Code::kMismatch,
                    fmt::format("{}: tensor {} is {}, expected is {}", checkpoint.path(),
                                model::in_quotes(tensor.name), kind_of(held), kind_of(tensor)));
    }
    places.push_back(found->second);
    by_name.erase(found);
  }
  for (const model::TensorSchema& tensor : checkpoint.schema()) {
    if (!by_name.contains(tensor.name)) continue;
    return Status(Code::kMismatch, fmt::format("{}: tensor {} is one too many", checkpoint.path(),
                                               model::in_quotes(tensor.name)));
  }
  return places;
}

ModelMemory::ModelMemory(model::Schema schema, model::ZeroMemory memory)
    : schema_(std::move(schema)),
      schema_bytes_(model::serialise(schema_)),
      map_(model::make_block_map(schema_)),
      memory_(std::move(memory)) {
  std::uint64_t offset = 0;
  for (const model::TensorSchema& tensor : schema_) {
    tensors_.push_back(memory_.data() + offset);
    offset = place_of_next(offset + byte_count_of(tensor));
  }
  read_.assign(tensors_.begin(), tensors_.end());
  view_.map = &map_;
  view_.schema_hash = model::schema_hash(schema_);
  view_.schema = schema_bytes_;
  view_.arrays = tensors_;
  view_.array_name = [this](std::uint32_t tensor) {
    return model::in_quotes(schema_[tensor].name);
  };
}

Result<std::unique_ptr<ModelMemory>> ModelMemory::create(const model::Schema& schema) {
  SPARCL_ASSIGN_OR_RETURN(const kernels::KernelSet* const kernels, model::chosen_kernels());
  SPARCL_ASSIGN_OR_RETURN(const std::string verify, setting_choice("VERIFY"));
  SPARCL_ASSIGN_OR_RETURN(const unsigned threads, threads_setting());
  std::uint64_t bytes = 1;  // an empty tensor has an address, too
  for (const model::TensorSchema& tensor : schema) bytes += place_of_next(byte_count_of(tensor));
  SPARCL_ASSIGN_OR_RETURN(model::ZeroMemory memory, allocate(bytes));
  std::unique_ptr<ModelMemory> made(new ModelMemory(schema, std::move(memory)));
  SPARCL_ASSIGN_OR_RETURN(made->view_.schema_digest, model::sha256_of(made->schema_bytes_));
  made->view_.kernels = kernels;
  made->view_.verify_all = verify == "full";
  made->workers_ = std::make_unique<WorkerPool>(threads);
  made->view_.workers = made->workers_.get();
  return made;
}

void ModelMemory::apply(const model::SparseChange& change) {
  model::apply_tensors(change, schema_, tensors_);
}

Status ModelMemory::read(const model::Checkpoint& checkpoint) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::size_t> places,
                          find_tensors(as_tensors(schema_), checkpoint));
  for (std::size_t i = 0; i < schema_.size(); ++i) {
    SPARCL_RETURN_IF_ERROR(checkpoint.read((places)[i], tensors_[i]));
  }
  return {};
}

}  // namespace sparcl::tool
