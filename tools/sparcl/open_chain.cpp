#include "tools/sparcl/open_chain.hpp"

#include <fmt/format.h>

#include "src/api/stored_state.hpp"
#include "src/model/attachment.hpp"
#include "src/store/stored_object.hpp"

namespace sparcl::tool {
namespace {

// A schema has some 100 bytes a tensor; the files beside the shards are packed.
constexpr std::uint64_t kMaxSchemaBytes = std::uint64_t{256} << 20,
                        kMaxDescriptionBytes = std::uint64_t{512} << 20, kMaxDescribed = 100'000;

Result<std::vector<std::byte>> read_object(const store::Chain& chain,
                                           const store::StoredObject& object,
                                           std::uint64_t max_bytes) {
  SPARCL_ASSIGN_OR_RETURN(const Staging staged,
                          store::get_object(chain.store(), object, max_bytes));
  std::vector<std::byte> bytes(static_cast<std::size_t>(object.bytes));
  staged.copy(0, bytes.size(), bytes.data());
  return bytes;
}

}  // namespace

Result<std::unique_ptr<OpenChain>> open_chain(const std::string& url, store::Missing missing,
                                              store::ChainTrustRef trust) {
  SPARCL_ASSIGN_OR_RETURN(auto objects, store::open_store(url, missing));
  return std::make_unique<OpenChain>(std::move(objects), std::move(trust));
}

std::string store_url_fault(const std::string& text) {
  const Status fault = store::check_store_url(text);
  if (fault.ok()) return {};
  if (text.starts_with("s3://")) return std::string(fault.message());
  if (text.find("://") != std::string::npos)
    return fmt::format("{} (AWS_ENDPOINT_URL_S3 names a server of S3 other than AWS)",
                       fault.message());
  const bool is_path = !text.empty() && text != "file:";
  return std::string(fault.message()) + (is_path ? fmt::format(": is file:{} meant?", text) : "");
}

bool is_store_url(const std::string& text) {
  return text.starts_with("file:") || text.find("://") != std::string::npos;
}

store::ChainState chain_state(const ModelMemory& memory) { return api::chain_state(memory.view()); }

Result<StoredModel> read_stored_model(const store::Chain& chain, const store::VersionRecord& record,
                                      const PartChoice& choice) {
  replication::ModelReply reply;
  reply.model_id = record.model_id;
  SPARCL_ASSIGN_OR_RETURN(reply.schema, read_object(chain, record.schema, kMaxSchemaBytes));
  StoredModel stored;
  if (record.description && choice.is_all()) {
    SPARCL_ASSIGN_OR_RETURN(reply.description,
                            read_object(chain, *record.description, kMaxDescriptionBytes));
    const Result<model::Attachment> attachment =
        model::parse_attachment(reply.description, kMaxDescribed);
    if (!attachment.ok())
      return attachment.status().with_prefix(chain.store().location_of(record.description->key) +
                                             ": ");
    for (const model::PackedFile& each : attachment->side_files) {
      SPARCL_ASSIGN_OR_RETURN(model::SideFile file, model::unpack(each));
      stored.side_files.push_back(std::move(file));
    }
  }
  Result<PublishedModel> read = read_published_model(reply, choice);
  if (read.status().code() == Code::kInvalidArgument) return read.status();  // the choice
  if (!read.ok())
    return read.status().with_prefix(chain.store().location_of(record.schema.key) + ": ");
  stored.model = std::move(*read);
  return stored;
}

Result<std::vector<std::byte>> describe_files(const model::Layout& layout,
                                              std::span<const model::SideFile> side_files) {
  SPARCL_ASSIGN_OR_RETURN(const std::vector<std::byte> described, describe_layout(layout));
  SPARCL_ASSIGN_OR_RETURN(model::Attachment attachment, model::parse_attachment(described));
  for (const model::SideFile& each : side_files) {
    SPARCL_ASSIGN_OR_RETURN(model::PackedFile packed, model::pack(each));
    attachment.side_files.push_back(std::move(packed));
  }
  return model::serialise(attachment);
}

}  // namespace sparcl::tool
