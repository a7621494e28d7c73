#include "tools/sparcl/published_model.hpp"

#include <fmt/format.h>

#include "src/base/memory_size.hpp"
#include "src/model/attachment.hpp"
#include "src/model/model_hash.hpp"
#include "tools/sparcl/console.hpp"
#include "tools/sparcl/model_memory.hpp"

namespace sparcl::tool {
namespace {

// Limits of a model; published models today have up to some 100,000 tensors. A tensor takes a
// hundred times as much memory here as in the list.
constexpr model::SchemaLimits kMaxModel{500'000, 4'000'000};
constexpr std::uint64_t kMaxFiles = 100'000;

model::Layout empty_file() { return model::single_file_layout({}, {}); }

// A schema of a few bytes can claim any size.
Status check_size(const model::Schema& schema) {
  const std::uint64_t bytes = model::make_block_map(schema).byte_count();
  const std::uint64_t memory = physical_memory();
  if (bytes <= memory || spill_folder()) return {};
  return Status(Code::kOutOfMemory,
                fmt::format("the publisher's model has {}, this machine's memory {}: set "
                            "SPARCL_SPILL_FOLDER to a folder of a local disk",
                            human_bytes(bytes), human_bytes(memory)));
}

Result<model::Layout> read_description(const std::vector<std::byte>& description) {
  const Result<model::Attachment> attachment = model::parse_attachment(description, kMaxFiles);
  if (!attachment.ok()) return attachment.status();
  if (!attachment->layout) return empty_file();
  Result<model::ChangedLayout> layout =
      model::apply_layout_change(*attachment->layout, empty_file());
  if (!layout.ok()) return layout.status();
  return std::move(layout->layout);
}

}  // namespace

Result<std::vector<std::byte>> describe_layout(const model::Layout& layout) {
  model::Attachment attachment;
  SPARCL_ASSIGN_OR_RETURN(model::LayoutChange change,
                          model::compare_layouts(empty_file(), layout, {}));
  attachment.layout = std::move(change);
  return model::serialise(attachment);
}

Result<PublishedModel> read_published_model(const replication::ModelReply& reply,
                                            const PartChoice& choice) {
  PublishedModel published;
  published.model_id = reply.model_id;
  Result<model::Schema> schema = model::parse_schema(reply.schema, kMaxModel);
  if (!schema.ok()) return schema.status().with_prefix("the publisher's list of tensors: ");
  published.schema = std::move(*schema);
  if (!choice.is_all()) {
    SPARCL_ASSIGN_OR_RETURN(model::Schema chosen, choose_parts(published.schema, choice));
    published.schema = std::move(chosen);
  }
  SPARCL_RETURN_IF_ERROR(check_size(published.schema));
  if (!choice.is_all()) {
    published.layout = model::single_file_layout(as_tensors(published.schema), {});
    return published;
  }
  if (reply.description.empty()) {
    const model::Schema tensors = as_tensors(published.schema);
    if (const Status fit = model::validate(tensors); !fit.ok()) {
      return Status(Code::kUnsupported,
                    fmt::format("no file can have what is published: {}", fit.message()));
    }
    published.layout = model::single_file_layout(tensors, {});
    return published;
  }
  Result<model::Layout> layout = read_description(reply.description);
  if (!layout.ok()) return layout.status().with_prefix("the publisher's description of files: ");
  published.layout = std::move(*layout);
  SPARCL_ASSIGN_OR_RETURN(const model::Schema described, model::layout_schema(published.layout));
  if (described == published.schema) return published;
  return Status(Code::kCorrupt,
                "the publisher's description of files has other tensors than it publishes");
}

}  // namespace sparcl::tool
