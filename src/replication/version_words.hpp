#pragma once
// The words of the contracts VersionSource and VersionSink, by the names that the protocol's
// messages have (docs/reference/protocol.md).

#include "src/model/version_sink.hpp"
#include "src/model/version_source.hpp"

namespace sparcl::replication {

using model::Commit;
using model::HeldVersion;
using model::UpdateName;

using model::Digest256;
using model::kLeafBytes;
using model::leaf_count;
using model::leaf_digest;
using model::leaf_end;
using model::root_of;
using model::sha256_of;
using model::StreamDigest;

using model::ChangeLogRef;
using Update = model::VersionUpdate;
using UpdateRef = model::VersionUpdateRef;

using Offer = model::VersionPlan;        // OFFER, ANNOUNCE
using Request = model::ChunkRequest;     // REQUEST
using Leaves = model::LeafDigests;       // LEAVES
using ChunkHead = model::ChunkPosition;  // CHUNK, before its bytes
using Ack = model::VersionHave;          // ACK
using AckStage = model::VersionHave::Stage;
using Nack = model::PlanRefusal;  // NACK

}  // namespace sparcl::replication
