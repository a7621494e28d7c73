#include "tools/sparcl/delta_applier.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "src/codec/update.hpp"
#include "src/model/checkpoint.hpp"
#include "src/model/checkpoint_writer.hpp"
#include "src/model/model_hash.hpp"
#include "tools/sparcl/progress.hpp"
#include "tools/sparcl/tensor_match.hpp"

namespace sparcl::tool {
namespace {

constexpr std::uint64_t kStepBlocks = 64;  // between two looks at the progress, heuristic

// Zeros that cost memory only where they are written.
class ZeroMemory {
 public:
  static Result<ZeroMemory> allocate(std::uint64_t bytes) {
    if (bytes == 0) return ZeroMemory(nullptr, 0);
    void* data = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (data != MAP_FAILED) return ZeroMemory(static_cast<std::byte*>(data), bytes);
    return Status(Code::kOutOfMemory, fmt::format("{} bytes for new tensors cannot be allocated", bytes));
  }
  ZeroMemory(ZeroMemory&& other) noexcept : data_(other.data_), bytes_(other.bytes_) { other.data_ = nullptr; }
  ZeroMemory& operator=(ZeroMemory&&) = delete;
  ~ZeroMemory() {
    if (data_ != nullptr) ::munmap(data_, bytes_);
  }
  std::byte* data() const { return data_; }

 private:
  ZeroMemory(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}

  std::byte* data_;
  std::uint64_t bytes_;
};

Status check_base(const model::Checkpoint& base, const Delta& delta, const DeltaSummary& summary, Hash128& base_hash) {
  const Result<Hash128> held = model::state_hash(base);
  if (!held.ok()) return held.status();
  base_hash = *held;
  const Hash128* wanted = summary.whole_base_hash();
  if (wanted == nullptr || !summary.target_hash) {
    return Status(
        Code::kCorrupt,
        fmt::format("{}: it has no state hashes, so its result could not be checked: make it with sparcl diff", delta.path));
  }
  if (*held == *wanted) return {};
  const std::string hashes = fmt::format("the delta needs state {}, this is {}", to_hex(*wanted), to_hex(*held));
  if (*held == *summary.target_hash) {
    return Status(Code::kWrongBase, fmt::format("{}: it is the target of {} already ({}): there is nothing to apply", base.path(),
                                                delta.path, hashes));
  }
  return Status(Code::kWrongBase, fmt::format("{}: it is not the base of {}: {}: apply it to the checkpoint that it was made of",
                                              base.path(), delta.path, hashes));
}

Result<model::ChangedLayout> target_layout(const model::Checkpoint& base, const DeltaSummary& summary) {
  if (!summary.layout_change) return model::ChangedLayout{base.layout(), true};
  return model::apply_layout_change(*summary.layout_change, base.layout());
}

// What becomes of the target's tensors: the base's, copied on write, and new ones.
struct Held {
  ZeroMemory fresh;
  std::vector<std::byte*> pointers;
};

Result<Held> hold(model::Checkpoint& base, const model::Schema& schema, const Delta& delta) {
  const std::vector<std::size_t> matches = match_tensors(base.schema(), schema);
  std::vector<std::uint64_t> offsets;
  std::uint64_t fresh_bytes = 0;
  for (std::size_t i = 0; i < schema.size(); ++i) {
    offsets.push_back(fresh_bytes);
    if (matches[i] == kNoBase) fresh_bytes += *model::element_count(schema[i]) * element_bytes(schema[i].datatype);
  }
  if (fresh_bytes > delta.bytes) {  // they travel as they are, so that no small delta can ask for much memory
    return Status(Code::kCorrupt, fmt::format("{}: its new tensors have {} bytes, more than it holds", delta.path, fresh_bytes));
  }
  Result<ZeroMemory> fresh = ZeroMemory::allocate(fresh_bytes + 1);  // + 1: an empty tensor has an address, too
  if (!fresh.ok()) return fresh.status();
  Held held{std::move(*fresh), {}};
  for (std::size_t i = 0; i < schema.size(); ++i) {
    held.pointers.push_back(matches[i] == kNoBase ? held.fresh.data() + offsets[i] : base.mutable_pointers()[matches[i]]);
  }
  return held;
}

Status decode(codec::UpdateDecoder& decoder, const Delta& delta, std::uint64_t block_count) {
  Progress progress("apply");
  bool more = true;
  for (std::uint64_t done = 0; more; done += kStepBlocks) {
    SPARCL_RETURN_IF_ERROR(decoder.advance(delta.staging, delta.bytes, kStepBlocks, more));
    progress.update(std::min(done, block_count), block_count);
  }
  SPARCL_RETURN_IF_ERROR(decoder.finish(delta.bytes));
  return decoder.apply(delta.staging);
}

}  // namespace

Result<ApplyReport> apply_delta(const std::string& base_path, const Delta& delta, const std::string& out_path) {
  const Result<const kernels::KernelSet*> kernels = chosen_kernels();
  if (!kernels.ok()) return kernels.status();
  const Result<DeltaSummary> summary = scan_delta(delta);
  if (!summary.ok()) return summary.status();
  Result<model::Checkpoint> base = model::Checkpoint::open(base_path, model::Access::kCopyOnWrite);
  if (!base.ok()) return base.status();
  ApplyReport report;
  SPARCL_RETURN_IF_ERROR(check_base(*base, delta, *summary, report.base_hash));

  const Result<model::ChangedLayout> layout = target_layout(*base, *summary);
  if (!layout.ok()) return layout.status().with_prefix(delta.path + ": ");
  const Result<model::Schema> schema = layout_schema(layout->layout);
  if (!schema.ok()) return schema.status().with_prefix(delta.path + ": ");
  Result<Held> held = hold(*base, *schema, delta);
  if (!held.ok()) return held.status();

  const codec::BlockMap map = model::make_block_map(*schema);
  codec::UpdateDecoder decoder(map, held->pointers, codec::Verify::kFull, model::schema_hash(*schema), **kernels);
  SPARCL_RETURN_IF_ERROR(decode(decoder, delta, map.block_count()).with_prefix(delta.path + ": "));

  // Of what is about to be written, and not of what the decoder meant to write.
  const std::vector<const std::byte*> tensors(held->pointers.begin(), held->pointers.end());
  const Result<Hash128> result = model::state_hash(*schema, tensors);
  if (!result.ok()) return result.status();
  if (*result != *summary->target_hash) {
    return Status(Code::kInternalError,
                  fmt::format("{}: the result has state hash {}, the delta's target is {}: nothing is written", delta.path,
                              to_hex(*result), to_hex(*summary->target_hash)));
  }
  std::error_code ignored;
  const bool in_place = std::filesystem::equivalent(base_path, out_path, ignored);
  SPARCL_RETURN_IF_ERROR(model::write_checkpoint(out_path, layout->layout, tensors, in_place ? &base->layout() : nullptr));
  report.elements = map.element_count();
  report.changed = decoder.changed();
  report.bytes = map.byte_count();
  report.target_hash = *result;
  report.exact = layout->exact;
  return report;
}

}  // namespace sparcl::tool
