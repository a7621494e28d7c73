#include "tools/sparcl/delta_maker.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "src/codec/update.hpp"
#include "src/model/atomic_file.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/layout_change.hpp"
#include "src/model/model_hash.hpp"
#include "tools/sparcl/delta_file.hpp"
#include "tools/sparcl/progress.hpp"
#include "tools/sparcl/tensor_match.hpp"

namespace sparcl::tool {
namespace {

constexpr std::uint64_t kStepElements = std::uint64_t{4}
                                        << 20;  // between two looks at the file's state and the progress, heuristic

// Gathers the encoder's bytes into large writes. Errors are kept: the encoder does not know any.
class FileSink : public codec::ByteSink {
 public:
  explicit FileSink(model::AtomicFile& file) : file_(file), buffer_(kBufferBytes) {}

  std::byte* reserve(std::size_t bytes) override {
    if (used_ + bytes > buffer_.size()) write_out();
    if (bytes > buffer_.size()) buffer_.resize(bytes);
    return buffer_.data() + used_;
  }
  void commit(std::size_t used) override { used_ += used; }

  Status flush() {
    write_out();
    return status_;
  }
  const Status& status() const { return status_; }

 private:
  static constexpr std::size_t kBufferBytes = std::size_t{4} << 20;

  void write_out() {
    if (status_.ok()) status_ = file_.write({buffer_.data(), used_});
    used_ = 0;
  }

  model::AtomicFile& file_;
  std::vector<std::byte> buffer_;
  std::size_t used_ = 0;
  Status status_;
};

struct Change {
  std::vector<const std::byte*> base;  // one a tensor of the target
  std::vector<std::byte> attachment;
  Hash128 base_hash;  // only where the schemas differ
  bool same_schema = true;
};

Result<Change> compare(const model::Checkpoint& base, const model::Checkpoint& target) {
  Change change;
  change.same_schema = base.schema() == target.schema();
  for (const std::size_t match : match_tensors(base.schema(), target.schema())) {
    change.base.push_back(match == kNoBase ? nullptr : base.pointers()[match]);
  }
  if (base.layout() == target.layout()) return change;
  if (!change.same_schema) {
    const Result<Hash128> hash = model::state_hash(base);
    if (!hash.ok()) return hash.status();
    change.base_hash = *hash;
  }
  const Result<model::LayoutChange> layout = model::compare_layouts(base.layout(), target.layout(), change.base_hash);
  if (!layout.ok()) return layout.status();
  change.attachment = serialise(*layout);
  return change;
}

Status encode(codec::UpdateEncoder& encoder, std::uint64_t elements, FileSink& sink) {
  Progress progress("diff");
  for (std::uint64_t done = 0; !encoder.finished(); done += kStepElements) {
    SPARCL_RETURN_IF_ERROR(encoder.step(kStepElements, sink));
    SPARCL_RETURN_IF_ERROR(sink.status());
    progress.update(std::min(done + kStepElements, elements), elements);
  }
  return sink.flush();
}

}  // namespace

Result<DiffReport> make_delta(const std::string& base_path, const std::string& target_path, const std::string& delta_path,
                              const codec::BlockMode* mode) {
  const Result<const kernels::KernelSet*> kernels = chosen_kernels();
  if (!kernels.ok()) return kernels.status();
  const Result<model::Checkpoint> base = model::Checkpoint::open(base_path);
  if (!base.ok()) return base.status();
  const Result<model::Checkpoint> target = model::Checkpoint::open(target_path);
  if (!target.ok()) return target.status();
  const Result<Change> change = compare(*base, *target);
  if (!change.ok()) return change.status();
  Result<model::AtomicFile> file = model::AtomicFile::create(delta_path);
  if (!file.ok()) return file.status();

  const codec::BlockMap map = model::make_block_map(target->schema());
  codec::EncodeOptions options;
  options.schema_hash = model::schema_hash(target->schema());
  options.with_state_hash = true;
  options.with_runs = true;
  options.attachment = change->attachment;
  options.mode = mode;
  FileSink sink(*file);
  codec::UpdateEncoder encoder(map, change->base, target->pointers(), options, **kernels);
  SPARCL_RETURN_IF_ERROR(encode(encoder, map.element_count(), sink));
  SPARCL_RETURN_IF_ERROR(file->commit());

  const codec::EncodeStats& stats = encoder.stats();
  return DiffReport{stats.elements,
                    stats.changed,
                    file->written_bytes(),
                    target->byte_count(),
                    change->same_schema ? stats.base_hash : change->base_hash,
                    stats.target_hash,
                    tensor_changes(base->schema(), target->schema())};
}

}  // namespace sparcl::tool
