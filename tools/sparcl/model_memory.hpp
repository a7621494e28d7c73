#pragma once
// The tensors of a model in memory of this process, in the form for the replication service. Files
// may change independently.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/worker_pool.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/files/held_state.hpp"
#include "src/replication/replicated_state.hpp"

namespace sparcl::tool {

// Of SPARCL_SPILL_FOLDER: where tensors are kept in a file; nullopt: in memory.
std::optional<std::string> spill_folder();

class ModelMemory {
 public:
  // Zeros. The schema must be valid.
  static Result<std::unique_ptr<ModelMemory>> create(const model::Schema& schema);
  ModelMemory(const ModelMemory&) = delete;
  ModelMemory& operator=(const ModelMemory&) = delete;

  // Copies all bytes of an unmapped checkpoint. Tensors are found by their names, slices as
  // separate tensors. Mismatch, with nothing written, names the file and the tensor. After another
  // error (Checkpoint::read) some tensors hold the checkpoint's values.
  Status read(const model::Checkpoint& checkpoint);

  // The same for a change that model::match_schema() has passed.
  void apply(const model::SparseChange& change);

  const model::Schema& schema() const { return schema_; }
  std::span<const std::byte* const> tensors() const { return read_; }
  std::uint64_t byte_count() const { return map_.byte_count(); }
  const replication::ReplicatedState& view() const { return view_; }

 private:
  ModelMemory(model::Schema schema, model::ZeroMemory memory);

  model::Schema schema_;
  std::vector<std::byte> schema_bytes_;
  codec::BlockMap map_;
  model::ZeroMemory memory_;
  std::vector<std::byte*> tensors_;
  std::vector<const std::byte*> read_;  // the same
  std::unique_ptr<WorkerPool> workers_;
  replication::ReplicatedState view_;
};

// The position of each tensor of `schema` in the checkpoint. Mismatch: their tensors differ.
Result<std::vector<std::size_t>> find_tensors(const model::Schema& schema,
                                              const model::Checkpoint& checkpoint);

}  // namespace sparcl::tool
