#pragma once
// The states behind the golden files: integer arithmetic only, so that every machine makes the same.

#include <algorithm>
#include <functional>
#include <string>

#include "src/base/number.hpp"
#include "src/codec/sparse_vector.hpp"
#include "tests/codec/codec_support.hpp"
#include "tests/codec/stream_surgery.hpp"

namespace sparcl::codec {

struct GoldenUpdate {
  std::string name;
  State base;
  State target;
  EncodeOptions options;
  std::vector<std::size_t> fresh;  // arrays without a base
};

constexpr Hash128 kGoldenSchema{0x0123456789abcdef, 0xfedcba9876543210};

class GoldenRandom {
 public:
  explicit GoldenRandom(std::uint64_t seed) : state_(seed) {}
  std::uint64_t operator()() {  // splitmix64
    std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  bool one_in(std::uint64_t n) { return (*this)() % n == 0; }

 private:
  std::uint64_t state_;
};

inline State golden_state(std::vector<ArraySpec> specs, GoldenRandom& random) {
  State state{std::move(specs), {}};
  for (const ArraySpec& spec : state.specs) {
    Array& array = state.arrays.emplace_back(spec.count * element_bytes(spec.datatype));
    for (std::byte& byte : array) byte = static_cast<std::byte>(random());
  }
  return state;
}

// Changes one element in `one_in` of the range by less than 2^size_bits, or by anything.
inline void golden_change(State& state, std::size_t array, std::uint64_t first, std::uint64_t one_in, unsigned size_bits,
                          GoldenRandom& random) {
  const std::size_t width = element_bytes(state.specs[array].datatype);
  for (std::uint64_t i = first; i < state.specs[array].count; ++i) {
    if (!random.one_in(one_in)) continue;
    std::byte* at = state.arrays[array].data() + i * width;
    std::uint64_t value = 0;
    std::memcpy(&value, at, width);
    const std::uint64_t size = size_bits == 0 ? 1 : 1 + random() % ((std::uint64_t{1} << size_bits) - 1);
    value += random.one_in(2) ? size : 0 - size;
    std::memcpy(at, &value, width);
  }
}

inline std::vector<GoldenUpdate> golden_updates() {
  std::vector<GoldenUpdate> all;
  const auto add = [&](std::string name, std::vector<ArraySpec> specs,
                       const std::function<void(GoldenUpdate&, GoldenRandom&)>& change) {
    GoldenRandom random(all.size() + 1);
    GoldenUpdate update{std::move(name), golden_state(std::move(specs), random), {}, {}, {}};
    update.target = update.base;
    update.options.base_version = 7;
    update.options.target_version = 8;
    update.options.schema_hash = kGoldenSchema;
    change(update, random);
    all.push_back(std::move(update));
  };
  add("unchanged", {{DataType::kBfloat16, 5000}},
      [](GoldenUpdate& update, GoldenRandom&) { update.options.with_state_hash = true; });
  add("flat", {{DataType::kBfloat16, 6000}}, [](GoldenUpdate& update, GoldenRandom& random) {
    golden_change(update.target, 0, 0, 60, 0, random);
    golden_change(update.target, 0, 0, 300, 5, random);
    update.options.with_state_hash = true;
  });
  add("flat_all_sizes", {{DataType::kFloat32, 1500}},
      [](GoldenUpdate& update, GoldenRandom& random) { golden_change(update.target, 0, 0, 10, 12, random); });
  add("verbatim", {{DataType::kInt64, 1200}},
      [](GoldenUpdate& update, GoldenRandom& random) { golden_change(update.target, 0, 0, 12, 63, random); });
  add("dense", {{DataType::kInt8, 400}},
      [](GoldenUpdate& update, GoldenRandom& random) { golden_change(update.target, 0, 0, 1, 8, random); });
  add("fresh", {{DataType::kInt16, 200}, {DataType::kFloat32, 300}}, [](GoldenUpdate& update, GoldenRandom& random) {
    golden_change(update.target, 1, 0, 20, 0, random);
    update.fresh = {0};
    update.options.with_state_hash = true;
  });
  add("many_arrays",
      {{DataType::kBfloat16, 0},
       {DataType::kBfloat16, 300},
       {DataType::kBfloat16, 1},
       {DataType::kFloat8e4m3, 64},
       {DataType::kUint8, 200000},
       {DataType::kFloat64, 90},
       {DataType::kInt32, 0},
       {DataType::kFloat64, 50}},
      [](GoldenUpdate& update, GoldenRandom& random) {
        golden_change(update.target, 1, 0, 20, 3, random);
        golden_change(update.target, 2, 0, 1, 0, random);
        golden_change(update.target, 4, 180000, 500, 0, random);
        golden_change(update.target, 5, 0, 30, 40, random);
        golden_change(update.target, 7, 0, 2, 2, random);
        static const Bytes attachment{std::byte{'n'}, std::byte{'o'}, std::byte{'t'}, std::byte{'e'}};
        update.options.attachment = attachment;
        update.options.with_state_hash = true;
      });
  add("two_level", {{DataType::kBfloat16, 7000}}, [](GoldenUpdate& update, GoldenRandom& random) {
    golden_change(update.target, 0, 6700, 3, 2, random);
    update.options.with_state_hash = true;
  });
  add("two_level_verbatim", {{DataType::kInt64, 3000}},
      [](GoldenUpdate& update, GoldenRandom& random) { golden_change(update.target, 0, 2950, 1, 63, random); });
  add("classes", {{DataType::kBfloat16, 3000}, {DataType::kBfloat16, 64000}, {DataType::kFloat16, 900}},
      [](GoldenUpdate& update, GoldenRandom& random) {
        // Small values change more often, and by more.
        for (std::size_t array = 0; array < 3; ++array) {
          for (std::uint64_t i = 0; i < update.base.specs[array].count; ++i) {
            std::byte* at = update.target.arrays[array].data() + 2 * i;
            std::uint16_t value = 0;
            std::memcpy(&value, at, 2);
            const unsigned exponent = (value >> 7) & 0xff;
            const std::uint64_t one_in = std::uint64_t{4} << (exponent / 32);
            if (!random.one_in(one_in)) continue;
            const std::uint64_t size = random.one_in(500) ? random() % 40000 : 1 + (random.one_in(4) ? random() % 5 : 0);
            value = static_cast<std::uint16_t>(random.one_in(2) ? value + size : value - size);
            std::memcpy(at, &value, 2);
          }
        }
        update.options.with_state_hash = true;
        update.options.allow_classes = true;
      });
  // New values of few exponents, of an array that has a base and of one that has none.
  add("packed", {{DataType::kFloat32, 900}, {DataType::kBfloat16, 1500}}, [](GoldenUpdate& update, GoldenRandom& random) {
    for (const std::size_t array : {0, 1}) {
      const std::size_t width = element_bytes(update.target.specs[array].datatype);
      for (std::size_t i = width - 1; i < update.target.arrays[array].size(); i += width) {
        update.target.arrays[array][i] = random.one_in(2) ? std::byte{0x3c} : std::byte{0xbc};
        if (i % 64 != 1) update.target.arrays[array][i - 1] = static_cast<std::byte>(random());
      }
    }
    update.fresh = {1};
    update.options.fewest_bytes = true;
    update.options.with_state_hash = true;
  });
  // Steps of one size: many units in the last place of small values, few of large ones.
  add("coded", {{DataType::kFloat16, 2500}}, [](GoldenUpdate& update, GoldenRandom& random) {
    for (std::size_t i = 0; i < 2500; ++i) {
      std::byte* at = update.target.arrays[0].data() + 2 * i;
      std::uint16_t value = 0;
      std::memcpy(&value, at, 2);
      const auto size = static_cast<std::uint16_t>((1500 + random() % 500) >> (((value >> 10) & 31) / 2));
      value = static_cast<std::uint16_t>(random.one_in(2) ? value + size : value - size);
      std::memcpy(at, &value, 2);
    }
    update.options.fewest_bytes = true;
    update.options.with_state_hash = true;
  });
  // Old values and changes are multiples of one power of two that codes can say, so that lossy coding loses nothing.
  add("added", {{DataType::kFloat32, 2000}, {DataType::kFloat16, 900}, {DataType::kFloat64, 700}, {DataType::kBfloat16, 600}},
      [](GoldenUpdate& update, GoldenRandom& random) {
        for (const std::size_t array : {0, 1, 2, 3}) {
          const DataType type = update.base.specs[array].datatype;
          const double unit = array == 3 ? 0x1p-4 : 0x1p-9;
          for (std::uint64_t i = 0; i < update.base.specs[array].count; ++i) {
            const std::size_t at = i * element_bytes(type);
            const double old_value = unit * static_cast<double>(random() % 128);
            const int code = i == 401                                    ? 127
                             : random.one_in(30) || (i > 500 && i < 560) ? static_cast<int>(random() % 255) - 127
                                                                         : 0;
            store_number(type, old_value, update.base.arrays[array].data() + at);
            store_number(type, old_value + unit * code, update.target.arrays[array].data() + at);
          }
        }
        update.options.values = {Values::kInt8, Rounding::kStochastic, 4};
        update.options.with_state_hash = true;
      });
  add("added_float8", {{DataType::kFloat32, 1000}}, [](GoldenUpdate& update, GoldenRandom& random) {
    for (std::size_t i = 0; i < 1000; ++i) {
      const auto size = static_cast<std::byte>(i == 99 ? 126 : random.one_in(12) ? random() % 127 : 0);
      const double change = load_number(DataType::kFloat8e4m3, &size) * 0x1p-12;
      store_number(DataType::kFloat32, 0.25, update.base.arrays[0].data() + 4 * i);
      store_number(DataType::kFloat32, 0.25 + (random.one_in(2) ? change : -change), update.target.arrays[0].data() + 4 * i);
    }
    update.options.values = {Values::kFloat8};
  });
  // All blocks of a run but its second, and both of another.
  add("flat_group", {{DataType::kInt8, 60000}, {DataType::kInt8, 220000}, {DataType::kFloat32, 70000}},
      [](GoldenUpdate& update, GoldenRandom& random) {
        golden_change(update.target, 0, 0, 900, 0, random);
        golden_change(update.target, 1, 100000, 2500, 3, random);
        golden_change(update.target, 2, 0, 3000, 5, random);
        update.options.with_state_hash = true;
      });
  add("two_level_group", {{DataType::kInt8, 400000}}, [](GoldenUpdate& update, GoldenRandom& random) {
    const State base = update.base;
    golden_change(update.target, 0, 40, 4, 0, random);
    for (std::size_t i = 0; i < 400000; ++i) {
      if (i % 70000 >= 60) update.target.arrays[0][i] = base.arrays[0][i];
    }
    update.options.with_state_hash = true;
  });
  // Some sub-blocks of 64, the last one short, as a whole; and half of the elements of some of 8.
  add("block_sparse", {{DataType::kInt8, 150'020}, {DataType::kFloat32, 70'000}}, [](GoldenUpdate& update, GoldenRandom& random) {
    const State base = update.base;
    golden_change(update.target, 0, 0, 1, 0, random);
    for (std::uint64_t i = 0; i < 150'020; ++i) {
      if ((i / 64) % 400 != 64) update.target.arrays[0][i] = base.arrays[0][i];
    }
    golden_change(update.target, 0, 149'952, 1, 0, random);
    golden_change(update.target, 1, 0, 2, 0, random);
    for (std::ptrdiff_t i = 0; i < 4 * 70'000; i += 32) {
      if (!random.one_in(40)) std::copy_n(base.arrays[1].begin() + i, 32, update.target.arrays[1].begin() + i);
    }
    update.options.with_state_hash = true;
  });
  // Of densities at which gaps are divided by 3, by 6 and by 24.
  add("thirds", {{DataType::kBfloat16, 1500}, {DataType::kInt16, 1200}, {DataType::kFloat16, 2500}},
      [](GoldenUpdate& update, GoldenRandom& random) {
        golden_change(update.target, 0, 0, 5, 0, random);
        golden_change(update.target, 1, 0, 9, 0, random);
        golden_change(update.target, 2, 0, 34, 2, random);
        update.options.with_state_hash = true;
      });
  return all;
}

inline Encoded encode_golden(const GoldenUpdate& update, const kernels::KernelSet& kernels) {
  const BlockMap map = update.target.map();
  auto base = update.base.read();
  for (const std::size_t array : update.fresh) base[array] = nullptr;
  const auto target = update.target.read();
  UpdateEncoder encoder(map, base, target, update.options, kernels);
  VectorSink sink;
  Encoded encoded;
  while (encoded.status.ok() && !encoder.finished()) encoded.status = encoder.step(1000, sink);
  encoded.bytes = sink.bytes();
  encoded.stats = encoder.stats();
  return encoded;
}

struct GoldenSparse {
  std::vector<std::uint64_t> indices;
  Array values;  // int16
};

inline GoldenSparse golden_sparse() {
  GoldenRandom random(99);
  GoldenSparse sparse;
  for (const std::uint64_t first : {std::uint64_t{0}, std::uint64_t{1} << 16, std::uint64_t{3} << 40, ~std::uint64_t{0} - 65535}) {
    for (std::uint64_t i = random() % 700; i < 65536; i += 1 + random() % 1500) sparse.indices.push_back(first + i);
  }
  for (std::uint64_t i = 0; i < 400; ++i) sparse.indices.push_back((std::uint64_t{1} << 17) + 300 + i);  // a cluster
  std::sort(sparse.indices.begin(), sparse.indices.end());
  sparse.values.resize(2 * sparse.indices.size());
  for (std::byte& byte : sparse.values) byte = static_cast<std::byte>(random());
  return sparse;
}

inline Bytes encode_golden(const GoldenSparse& sparse, const kernels::KernelSet& kernels) {
  SparseEncoder encoder(sparse.indices, sparse.values.data(), DataType::kInt16, kernels);
  VectorSink sink;
  while (!encoder.finished()) {
    if (!encoder.step(10, sink).ok()) break;
  }
  return sink.bytes();
}

}  // namespace sparcl::codec
