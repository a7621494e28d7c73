// A receiver of a part of a state: the blocks of its window come out as those of the whole state,
// and no byte beyond them is written, whatever arrives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <optional>

#include "src/base/worker_pool.hpp"
#include "src/codec/block_mode.hpp"
#include "src/codec/block_window.hpp"
#include "src/codec/superblock.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/stream_surgery.hpp"
#include "tests/codec/weight_states.hpp"

namespace sparcl::codec {
namespace {

const std::vector<ArraySpec> kWindowSpecs{{DataType::kBfloat16, 400'001}, {DataType::kBfloat16, 7},
                                          {DataType::kBfloat16, 270'000}, {DataType::kUint8, 0},
                                          {DataType::kFloat32, 140'000},  {DataType::kInt8, 66'001},
                                          {DataType::kFloat16, 131'073},  {DataType::kFloat64, 3}};

constexpr std::byte kBeyond{0xa5};  // the memory of blocks that are not held

BlockWindow random_window(const BlockMap& map, std::mt19937_64& random) {
  BlockWindow window(map);
  for (std::uint64_t parts = random() % 4; parts > 0; --parts) {
    const auto array = static_cast<std::uint32_t>(random() % map.arrays().size());
    const std::uint64_t elements = map.arrays()[array].count;
    if (elements == 0) continue;
    const std::uint64_t first = random() % elements;
    window.add(array, first, 1 + random() % std::min<std::uint64_t>(elements - first, 150'000));
  }
  return window;
}

template <class Visit>
void for_each_piece(const BlockMap& map, const Visit& visit) {
  std::vector<Piece> pieces;
  for (std::uint64_t block = 0; block < map.block_count(); ++block) {
    const std::size_t width = element_bytes(map.block(block, pieces));
    for (const Piece& piece : pieces)
      visit(block, piece.array, piece.first * width, piece.count * width);
  }
}

// The state where the window is, and kBeyond elsewhere.
State seen_through(const BlockWindow& window, const State& state) {
  State seen = state;
  for_each_piece(state.map(), [&](std::uint64_t block, std::uint32_t array, std::uint64_t first,
                                  std::uint64_t bytes) {
    if (!window.has(block))
      std::fill_n(seen.arrays[array].begin() + static_cast<std::ptrdiff_t>(first), bytes, kBeyond);
  });
  return seen;
}

struct WindowDecoding {
  Verify verify = Verify::kTouched;
  Writing writing = Writing::kStaged;
  WorkerPool* pool = nullptr;
  bool keeps_changes = false;
};

Status decode_window(const Bytes& bytes, State& held, const BlockWindow& window,
                     const WindowDecoding& how) {
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(bytes);
  UpdateDecoder decoder(map, arrays, how.verify, {}, kernels::cpu_kernels(), how.writing);
  decoder.set_window(window);
  if (how.pool != nullptr) decoder.set_workers(*how.pool);
  if (how.keeps_changes) decoder.keep_changes(UINT64_MAX / 2);
  SPARCL_RETURN_IF_ERROR(check_stream(decoder, staging, bytes.size(), 100'000));
  EXPECT_FALSE(decoder.already_applied());
  return decoder.apply(staging);
}

const WindowDecoding kWindowWays[] = {
    {}, {.writing = Writing::kEarly}, {.keeps_changes = true}, {.verify = Verify::kOff}};

// Without a base.
struct WholeUpdate {
  Bytes bytes;
  std::vector<ChunkStart> chunks;
};
WholeUpdate encode_whole_update(const State& target, bool fewest_bytes) {
  const BlockMap map = target.map();
  const std::vector<const std::byte*> none(target.arrays.size(), nullptr);
  const auto arrays = target.read();
  EncodeOptions options = with_hash();
  options.fewest_bytes = fewest_bytes;
  UpdateEncoder encoder(map, none, arrays, options, kernels::cpu_kernels());
  VectorSink sink;
  while (!encoder.finished()) EXPECT_TRUE(encoder.step(1 << 20, sink).ok());
  const auto chunks = encoder.chunk_starts();
  return {sink.bytes(), {chunks.begin(), chunks.end()}};
}

TEST(BlockWindow, HoldsWholeSuperblocksOfFloatsOf16Bits) {
  const State state = random_state(kWindowSpecs, 1);
  const BlockMap map = state.map();
  BlockWindow window(map);
  EXPECT_EQ(window.block_count(), 0u);
  window.add(0, 5 * std::uint64_t{kBlockElements} + 1, 1);
  EXPECT_TRUE(window.has_all(4, 8));
  EXPECT_EQ(window.count(0, map.block_count()), 4u);
  window.add(2, 269'999, 1);  // the last element of the run, whose superblock has 3 blocks
  EXPECT_TRUE(window.has_all(8, 11));
  EXPECT_FALSE(window.has_any(0, 4));
  EXPECT_FALSE(window.has(11));
  const std::uint64_t run_elements = 400'001 + 7 + 270'000;
  EXPECT_EQ(window.byte_count(), (run_elements - 4 * std::uint64_t{kBlockElements}) * 2);
  window.add(4, 65'535, 2);  // two blocks of float32
  EXPECT_EQ(window.block_count(), 9u);
  window.add(3, 0, 0);
  EXPECT_EQ(window.block_count(), 9u);
}

void expect_as_whole(const State& base, const State& target, const EncodeOptions& options,
                     std::uint64_t seed, const std::string& what) {
  const Encoded encoded = encode(base, target, options);
  ASSERT_TRUE(encoded.status.ok()) << what << encoded.status.message();
  WorkerPool pool(2);
  std::mt19937_64 random(seed);
  const BlockMap map = base.map();
  for (const WindowDecoding& way : kWindowWays) {
    const BlockWindow window = random_window(map, random);
    WindowDecoding how = way;
    how.pool = random() % 3 == 0 ? &pool : nullptr;
    State held = seen_through(window, base);
    const Status status = decode_window(encoded.bytes, held, window, how);
    ASSERT_TRUE(status.ok()) << what << status.message();
    ASSERT_TRUE(held.arrays == seen_through(window, target).arrays) << what;
  }
}

TEST(BlockWindow, ChangesComeOutAsThoseOfTheWholeState) {
  const State base = normal_state(kWindowSpecs, 2);
  std::uint64_t seed = 0;
  for (const double density : {0.0, 1e-4, 0.02, 0.9}) {
    for (const Change change : {Change::kUlp, Change::kRandom}) {
      const State target = changed_state(base, density, change, 3);
      EncodeOptions classes = with_hash(), fewest = with_hash();
      classes.allow_classes = true;
      fewest.fewest_bytes = true;
      for (const EncodeOptions& options : {with_hash(), classes, fewest})
        expect_as_whole(base, target, options, ++seed, fmt::format("density {}: ", density));
    }
  }
  for (const float size : {1e-5f, 1e-3f}) {  // blocks of classes
    EncodeOptions classes = with_hash();
    classes.allow_classes = true;
    expect_as_whole(base, stepped_state(base, size, 4), classes, ++seed, "steps: ");
  }
}

TEST(BlockWindow, EachModeComesOut) {
  const State base = normal_state(kWindowSpecs, 5);
  const State target = changed_state(base, 0.01, Change::kUlp, 6);
  std::uint64_t seed = 100;
  for (const BlockMode* const mode : block_modes()) {
    EncodeOptions options = with_hash(mode);
    options.allow_classes = mode == &kClassesMode;
    expect_as_whole(base, target, options, ++seed, fmt::format("mode {}: ", mode->name));
  }
}

TEST(BlockWindow, WholeStatesAreWrittenOverItAlone) {
  const State target = normal_state(kWindowSpecs, 7);
  const BlockMap map = target.map();
  std::mt19937_64 random(8);
  for (const bool fewest_bytes : {false, true}) {
    const WholeUpdate whole = encode_whole_update(target, fewest_bytes);
    for (int i = 0; i < 10; ++i) {
      const BlockWindow window = random_window(map, random);
      State held = seen_through(window, random_state(kWindowSpecs, 9));
      const Status status = decode_window(whole.bytes, held, window,
                                          {.verify = Verify::kOff, .writing = Writing::kOver});
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(held.arrays == seen_through(window, target).arrays);
    }
  }
}

// The chunks that have a window's blocks: [first, last) of `chunks`.
std::vector<std::pair<std::size_t, std::size_t>> wanted_chunks(const WholeUpdate& whole,
                                                               const BlockWindow& window) {
  std::vector<std::pair<std::size_t, std::size_t>> wanted;
  for (std::size_t i = 0; i + 1 < whole.chunks.size(); ++i) {
    if (!window.has_any(whole.chunks[i].block, whole.chunks[i + 1].block)) continue;
    if (!wanted.empty() && wanted.back().second == i)
      wanted.back().second = i + 1;
    else
      wanted.emplace_back(i, i + 1);
  }
  return wanted;
}

// Reads them alone: all other bytes are not there.
Status decode_chunks(const WholeUpdate& whole, State& held, const BlockWindow& window) {
  Bytes bytes(whole.bytes.size(), std::byte{0x5a});
  const auto copy = [&](std::uint64_t first, std::uint64_t end) {
    std::copy(whole.bytes.begin() + static_cast<std::ptrdiff_t>(first),
              whole.bytes.begin() + static_cast<std::ptrdiff_t>(end),
              bytes.begin() + static_cast<std::ptrdiff_t>(first));
  };
  const auto wanted = wanted_chunks(whole, window);
  copy(0, whole.chunks.front().byte);
  for (const auto& [first, last] : wanted) copy(whole.chunks[first].byte, whole.chunks[last].byte);
  const BlockMap map = held.map();
  const auto arrays = held.write();
  const Staging& staging = staged(bytes);
  UpdateDecoder decoder(map, arrays, Verify::kOff, {}, kernels::cpu_kernels(), Writing::kOver);
  decoder.set_window(window);
  bool more = true;
  while (more) SPARCL_RETURN_IF_ERROR(decoder.advance(staging, whole.chunks.front().byte, 3, more));
  for (const auto& [first, last] : wanted) {
    SPARCL_RETURN_IF_ERROR(decoder.go_on_at(whole.chunks[first]));
    for (more = true; more;)
      SPARCL_RETURN_IF_ERROR(decoder.advance(staging, whole.chunks[last].byte, 3, more));
    SPARCL_RETURN_IF_ERROR(decoder.end_before(whole.chunks[last]));
  }
  SPARCL_RETURN_IF_ERROR(decoder.finish_chunks());
  return decoder.apply(staging);
}

TEST(BlockWindow, ChunksAreReadAlone) {
  const State target = normal_state(kWindowSpecs, 10);
  const BlockMap map = target.map();
  std::mt19937_64 random(11);
  for (const bool fewest_bytes : {false, true}) {
    const WholeUpdate whole = encode_whole_update(target, fewest_bytes);
    ASSERT_GE(whole.chunks.size(), 3u);
    EXPECT_EQ(whole.chunks.front().block, 0u);
    EXPECT_EQ(whole.chunks.back().block, map.block_count());
    for (int i = 0; i < 10; ++i) {
      const BlockWindow window = random_window(map, random);
      State held = seen_through(window, random_state(kWindowSpecs, 12));
      const Status status = decode_chunks(whole, held, window);
      ASSERT_TRUE(status.ok()) << status.message();
      EXPECT_TRUE(held.arrays == seen_through(window, target).arrays);
    }
  }
}

TEST(BlockWindow, FalseStartsOfChunksAreRefused) {
  const State target = normal_state(kWindowSpecs, 13);
  const BlockMap map = target.map();
  const WholeUpdate whole = encode_whole_update(target, true);
  BlockWindow window(map);
  window.add(0, 0, 400'001);
  window.add(6, 0, 131'073);
  std::mt19937_64 random(14);
  for (int i = 0; i < 30; ++i) {
    WholeUpdate lying = whole;
    ChunkStart& one = lying.chunks[random() % lying.chunks.size()];
    const std::uint64_t other = random() % 3 == 0 ? random() % whole.bytes.size() : 1;
    if (i % 3 == 0) one.byte = std::min(one.byte + other, whole.bytes.size() - 1);
    if (i % 3 == 1) one.block += 1 + random() % 3;
    if (i % 3 == 2) one.crc ^= 1;
    if (one.byte < lying.chunks.front().byte || lying.chunks.front().byte != whole.chunks[0].byte)
      continue;
    for (std::size_t k = 1; k < lying.chunks.size(); ++k)  // as an index is checked before
      if (lying.chunks[k].byte <= lying.chunks[k - 1].byte) lying = whole;
    const auto wanted = wanted_chunks(lying, window);
    const bool is_used = lying.chunks != whole.chunks;
    State held = seen_through(window, target);
    const Status status = decode_chunks(lying, held, window);
    const State seen = seen_through(window, held);
    EXPECT_TRUE(held.arrays == seen.arrays) << i;  // nothing beyond the window
    EXPECT_TRUE(!status.ok() || !is_used || held.arrays == seen_through(window, target).arrays);
  }
}

TEST(BlockWindow, AWrongBaseIsFoundAndNothingIsWritten) {
  const State base = normal_state(kWindowSpecs, 15);
  const State target = stepped_state(changed_state(base, 0.001, Change::kUlp, 16), 1e-4f, 17);
  EncodeOptions options = with_hash();
  options.allow_classes = true;
  const Encoded encoded = encode(base, target, options);
  const BlockMap map = base.map();
  BlockWindow window(map);
  window.add(0, 0, 300'000);
  window.add(4, 0, 140'000);
  const State other = changed_state(base, 0.5, Change::kUlp, 18);
  for (const Writing writing : {Writing::kStaged, Writing::kEarly}) {
    for (const State* const wrong : {&other, &target}) {  // the target is not taken for held either
      State held = seen_through(window, *wrong);
      const Status status = decode_window(encoded.bytes, held, window, {.writing = writing});
      EXPECT_EQ(status.code(), Code::kWrongBase) << status.message();
      EXPECT_TRUE(held.arrays == seen_through(window, *wrong).arrays);
    }
  }
}

TEST(BlockWindow, HostileStreamsWriteNothingBeyondIt) {
  const State base = normal_state(kWindowSpecs, 19);
  const State target = changed_state(base, 0.002, Change::kUlp, 20);
  const BlockMap map = base.map();
  EncodeOptions options = with_hash();
  options.allow_classes = true;
  const RawStream good = take_apart(encode(base, target, options).bytes);
  const RawStream whole = take_apart(encode_whole_update(target, true).bytes);
  std::mt19937_64 random(21);
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    const bool is_over = i % 3 == 0;
    RawStream stream = is_over ? whole : good;
    RawSection& section = stream.sections[1 + random() % (stream.sections.size() - 1)];
    if (random() % 4 == 0) section.tag = static_cast<std::uint8_t>(0x10 + random() % 15);
    if (!section.content.empty())
      section.content[random() % std::min<std::size_t>(section.content.size(), 40)] ^=
          static_cast<std::byte>(1 + random() % 255);
    const BlockWindow window = random_window(map, random);
    const State before = seen_through(window, base);
    State held = before;
    WindowDecoding how = kWindowWays[random() % std::size(kWindowWays)];
    if (is_over) how = {.verify = Verify::kOff, .writing = Writing::kOver};
    const Status status = decode_window(put_together(stream), held, window, how);
    refused += status.ok() ? 0 : 1;
    EXPECT_TRUE(status.ok() || is_over || held.arrays == before.arrays) << i;
    EXPECT_TRUE(held.arrays == seen_through(window, held).arrays) << i;
  }
  EXPECT_GT(refused, 10);
}

}  // namespace
}  // namespace sparcl::codec
