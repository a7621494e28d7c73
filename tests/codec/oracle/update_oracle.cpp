#include "tests/codec/oracle/block_walk.hpp"
#include "tests/codec/oracle/update_fields.hpp"

namespace sparcl::oracle {
namespace {

// A chunk's sums beside the digests that its end has.
struct Chunk {
  std::uint64_t held;
  std::uint64_t result;
  std::uint64_t sent_old;
  std::uint64_t sent_new;
  bool has_classes;
  bool fits;  // each change of a class has found its element
};

void check_header(const UpdateHeader& header, const Receiver& receiver) {
  UpdateHeader expected;
  set_layout(expected, receiver.arrays);
  refuse_if(header.schema != receiver.schema, "another schema", Finding::kMismatch);
  const bool same = header.layout == expected.layout && header.elements == expected.elements &&
                    header.arrays == expected.arrays;
  refuse_if(!same, "another layout", Finding::kMismatch);
  const bool lacks_hash = receiver.check == Check::kFull && !header.has(kHasTargetHash);
  const bool lacks_digests = receiver.check == Check::kTouched && header.has(kNoDigests);
  refuse_if(lacks_hash || lacks_digests, "the update does not carry what this check needs",
            Finding::kUnsupported);
}

Chunk read_chunk_end(const Section& section, const ChunkSums& sums) {
  ByteCursor in(section.content);
  const std::uint64_t sent_old = in.number(8);
  return {high(sums.held), high(sums.result), sent_old, in.number(8), sums.has_classes, sums.fits};
}

struct Digests {
  bool all_old = true;  // what is held is the base
  bool all_new = true;  // what is held is the target
  bool undecided =
      false;  // the digests of a chunk with classes say no more than that this is not its base
};

Digests check_digests(const std::vector<Chunk>& chunks, const UpdateHeader& header,
                      bool they_decide) {
  Digests digests;
  for (const Chunk& chunk : chunks) {
    if (header.has(kNoDigests)) {
      refuse_if(chunk.sent_old != 0 || chunk.sent_new != 0, "digests in an update without");
      continue;
    }
    const bool is_old = chunk.held == chunk.sent_old && chunk.fits;
    const bool undecided = chunk.has_classes && !is_old;
    digests.all_old = digests.all_old && is_old;
    digests.all_new = digests.all_new && (chunk.held == chunk.sent_new || undecided);
    digests.undecided = digests.undecided || undecided;
    const bool follows = !is_old || chunk.result == chunk.sent_new;
    refuse_if(!follows, "the blocks of a chunk do not lead to its new values");
    refuse_if(they_decide && !digests.all_old && !digests.all_new,
              "what is held is neither base nor target", Finding::kWrongBase);
  }
  return digests;
}

// True if what is held is the target already.
bool check_state_hashes(const BlockWalk& walk, const UpdateHeader& header, const UpdateEnd& end,
                        const Digests& digests) {
  const bool has_base = header.has(kHasBaseHash);
  const Hash held = walk.state_hash(walk.held());
  if (held == end.target && !(has_base && end.base == end.target)) return true;
  const bool is_base = has_base ? held == end.base : digests.all_old;
  refuse_if(!is_base, "what is held is neither base nor target", Finding::kWrongBase);
  const bool follows = walk.state_hash(walk.result()) == end.target;
  refuse_if(!follows, "the update does not lead to its target",
            has_base ? Finding::kCorrupt : Finding::kWrongBase);
  return false;
}

// The same by the digests.
bool check_touched(const BlockWalk& walk, const UpdateEnd& end, const Digests& digests) {
  if (!digests.undecided) return !digests.all_old;
  const bool target_is_held = walk.state_hash(walk.held()) == end.target;
  refuse_if(!target_is_held, "what is held is neither base nor target", Finding::kWrongBase);
  return true;
}

std::vector<Bytes> run(std::span<const std::byte> stream, const Receiver& receiver,
                       const std::vector<Bytes>& held) {
  const std::vector<Section> sections = read_frame(stream, Kind::kUpdate);
  const UpdateHeader header = read_header(sections.front());
  check_header(header, receiver);

  BlockWalk walk(receiver, held);
  std::vector<Chunk> chunks;
  for (const Section& section : sections) {
    if (section.is_block() || section.tag == kClassTable) walk.read(section);
    if (section.tag == kChunkEnd) chunks.push_back(read_chunk_end(section, walk.end_chunk()));
  }
  const UpdateEnd end = read_end(sections.back(), header);
  refuse_if(end.blocks != walk.block_count() || end.elements != walk.element_count(),
            "totals differ");
  refuse_if(!walk.tables_are_used(), "a class table that no block uses");
  refuse_if(walk.has_classes() && !header.has(kHasTargetHash),
            "classes without the target's state hash");
  refuse_if(end.changed > end.elements, "more changes than elements");

  if (receiver.check == Check::kOff) {
    for (const Chunk& chunk : chunks)
      refuse_if(!chunk.fits, "a change finds no element", Finding::kWrongBase);
    return walk.result();
  }
  const bool full = receiver.check == Check::kFull;
  const Digests digests = check_digests(chunks, header, !full);
  const bool target_is_held =
      full ? check_state_hashes(walk, header, end, digests) : check_touched(walk, end, digests);
  return target_is_held ? walk.held_and_fresh() : walk.result();
}

}  // namespace

UpdateOutcome decode_update(std::span<const std::byte> stream, const Receiver& receiver,
                            const std::vector<Bytes>& held) {
  UpdateOutcome outcome;
  try {
    outcome.arrays = run(stream, receiver, held);
  } catch (const Refusal& refusal) {
    outcome.finding = refusal.finding;
    outcome.reason = refusal.reason;
  }
  return outcome;
}

}  // namespace sparcl::oracle
