#include "tests/codec/oracle/blocks.hpp"
#include "tests/codec/oracle/hashes.hpp"

namespace sparcl::oracle {
namespace {

struct Header {
  Hash schema;
  std::uint64_t layout;
  std::uint64_t elements;
  std::uint64_t arrays;
  bool has_base_hash;
  bool has_target_hash;
  bool has_digests;
};

struct End {
  std::uint64_t blocks;
  std::uint64_t elements;
  std::uint64_t changed;
  Hash base;
  Hash target;
};

// The sums of the blocks since the last chunk end.
struct Digests {
  Hash held;                   // of what the receiver holds, to compare with both sent digests
  Hash result;                 // of what the blocks make of it
  std::uint64_t sent_old = 0;  // the chunk end's
  std::uint64_t sent_new = 0;
};

Hash read_hash(ByteCursor& in) {
  const std::uint64_t low = in.number(8);
  return {low, in.number(8)};
}

Header read_header(const Section& section) {
  ByteCursor in(section.content);
  in.number(8);  // versions
  in.number(8);
  Header header{};
  header.schema = read_hash(in);
  header.layout = in.number(8);
  header.elements = in.number(8);
  header.arrays = in.number(4);
  const std::uint64_t flags = in.number(4);
  header.has_base_hash = (flags & 1) != 0;
  header.has_target_hash = (flags & 2) != 0;
  header.has_digests = (flags & 4) == 0;
  return header;
}

End read_end(const Section& section, const Header& header) {
  ByteCursor in(section.content);
  End end{};
  end.blocks = in.number(8);
  end.elements = in.number(8);
  end.changed = in.number(8);
  if (header.has_base_hash) end.base = read_hash(in);
  if (header.has_target_hash) end.target = read_hash(in);
  return end;
}

void check_header(const Header& header, const Receiver& receiver) {
  Bytes records;
  std::uint64_t elements = 0;
  for (const ArraySpec& array : receiver.arrays) {
    records.push_back(static_cast<std::byte>(array.data_type));
    for (unsigned i = 0; i < 8; ++i) records.push_back(static_cast<std::byte>(array.elements >> (8 * i)));
    elements += array.elements;
  }
  refuse_if(header.schema != receiver.schema, "another schema", Finding::kMismatch);
  const bool same = header.layout == h64(records, 0) && header.elements == elements && header.arrays == receiver.arrays.size();
  refuse_if(!same, "another layout", Finding::kMismatch);
}

Hash state_hash(const std::vector<Bytes>& arrays, const std::vector<Block>& blocks, Hash schema) {
  Hash sum = schema;
  for (const Block& block : blocks) {
    const Values values = load(arrays, block);
    for (std::size_t i = 0; i < values.size(); ++i) sum = sum + element_sums(values[i], block.kind.bytes, i, block.index);
  }
  return sum;
}

class UpdateReader {
 public:
  UpdateReader(const Receiver& receiver, const std::vector<Bytes>& held)
      : receiver_(receiver), blocks_(cut_blocks(receiver.arrays)), held_(held), result_(held), fresh_(held) {}

  std::vector<Bytes> run(std::span<const std::byte> stream) {
    const std::vector<Section> sections = read_frame(stream, Kind::kUpdate);
    const Header header = read_header(sections.front());
    check_header(header, receiver_);
    const bool can_check =
        receiver_.check == Check::kOff || (receiver_.check == Check::kFull ? header.has_target_hash : header.has_digests);
    refuse_if(!can_check, "the update does not carry what this check needs", Finding::kUnsupported);
    has_digests_ = header.has_digests;
    for (const Section& section : sections) {
      if (section.is_block()) read(section);
      if (section.tag == kChunkEnd) read_chunk_end(section);
    }
    const End end = read_end(sections.back(), header);
    check_totals(end);
    check_base(header, end);
    if (!target_is_held_) return result_;
    return fresh_;
  }

 private:
  void read(const Section& section) {
    ByteCursor in(section.content);
    if (section.has_gap()) {
      const std::uint64_t gap = in.varint();
      refuse_if(gap == 0 || gap > blocks_.size() - next_block_, "a gap of no blocks, or past the last");
      next_block_ += gap;
    }
    refuse_if(next_block_ >= blocks_.size(), "a block past the last");
    const Block& block = blocks_[next_block_++];
    const Values old = load(held_, block);
    const Changes changes = read_block(section.mode(), in.take(in.left()), block, old, Kind::kUpdate);
    digest(block, changes, old);
    Values now = old;
    for (std::size_t i = 0; i < changes.positions.size(); ++i) now[changes.positions[i]] = changes.values[i];
    store(result_, block, now);
    if (changes.fresh) store(fresh_, block, now);

    ++block_count_;
    element_count_ += changes.positions.size();
  }

  void digest(const Block& block, const Changes& changes, const Values& old) {
    if (changes.fresh || !has_digests_) return;
    for (std::size_t i = 0; i < changes.positions.size(); ++i) {
      const std::uint64_t position = changes.positions[i];
      chunk_.held = chunk_.held + element_sums(old[position], block.kind.bytes, position, block.index);
      chunk_.result = chunk_.result + element_sums(changes.values[i], block.kind.bytes, position, block.index);
    }
  }

  void read_chunk_end(const Section& section) {
    ByteCursor in(section.content);
    chunk_.sent_old = in.number(8);
    chunk_.sent_new = in.number(8);
    refuse_if(!has_digests_ && (chunk_.sent_old != 0 || chunk_.sent_new != 0), "digests in an update without");
    chunks_.push_back(chunk_);
    chunk_ = {};
  }

  void check_totals(const End& end) const {
    refuse_if(end.blocks != block_count_ || end.elements != element_count_, "totals differ");
    refuse_if(end.changed > end.elements, "more changes than elements");
  }

  // Says whether all digests fit the base; refuses what fits neither it nor the target.
  bool check_digests(bool digests_decide) {
    bool base = true;
    bool target = true;
    for (const Digests& chunk : chunks_) {
      const std::uint64_t held = high_halves(chunk.held);
      base = base && held == chunk.sent_old;
      target = target && held == chunk.sent_new;
      const bool follows = held != chunk.sent_old || high_halves(chunk.result) == chunk.sent_new;
      refuse_if(!follows, "the blocks of a chunk do not lead to its new values");
      refuse_if(digests_decide && !base && !target, "what is held is neither base nor target", Finding::kWrongBase);
    }
    if (digests_decide) target_is_held_ = !base;
    return base;
  }

  void check_state_hashes(const Header& header, const End& end, bool digests_fit_base) {
    const Hash held = state_hash(held_, blocks_, receiver_.schema);
    target_is_held_ = held == end.target && !(header.has_base_hash && end.base == end.target);
    if (target_is_held_) return;
    const bool is_base = header.has_base_hash ? held == end.base : digests_fit_base;
    refuse_if(!is_base, "what is held is neither base nor target", Finding::kWrongBase);
    const bool follows = state_hash(result_, blocks_, receiver_.schema) == end.target;
    refuse_if(!follows, "the update does not lead to its target", header.has_base_hash ? Finding::kCorrupt : Finding::kWrongBase);
  }

  void check_base(const Header& header, const End& end) {
    if (receiver_.check == Check::kOff) return;
    const bool full = receiver_.check == Check::kFull;
    const bool digests_fit_base = check_digests(!full);
    if (full) check_state_hashes(header, end, digests_fit_base);
  }

  const Receiver& receiver_;
  const std::vector<Block> blocks_;
  const std::vector<Bytes>& held_;
  std::vector<Bytes> result_;  // with all blocks written
  std::vector<Bytes> fresh_;   // with the fresh ones alone
  std::uint64_t next_block_ = 0;
  std::uint64_t block_count_ = 0;
  std::uint64_t element_count_ = 0;
  bool has_digests_ = true;
  bool target_is_held_ = false;
  Digests chunk_;
  std::vector<Digests> chunks_;
};

}  // namespace

UpdateOutcome decode_update(std::span<const std::byte> stream, const Receiver& receiver, const std::vector<Bytes>& held) {
  UpdateOutcome outcome;
  try {
    outcome.arrays = UpdateReader(receiver, held).run(stream);
  } catch (const Refusal& refusal) {
    outcome.finding = refusal.finding;
    outcome.reason = refusal.reason;
  }
  return outcome;
}

}  // namespace sparcl::oracle
