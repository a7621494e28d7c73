// Inputs of other element types: masters rounded to 16 and 8 bits, and optimizer states.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>

#include "bench/codec/bench_data.hpp"
#include "bench/codec/bench_random.hpp"

namespace sparcl::bench {
namespace {

struct FloatShape {
  int exponent_bits, mantissa_bits;
};

FloatShape shape_of(DataType type) {
  switch (type) {
    case DataType::kBfloat16:
      return {8, 7};
    case DataType::kFloat16:
      return {5, 10};
    case DataType::kFloat8e4m3:
      return {4, 3};
    default:
      return {5, 2};
  }
}

// Rounds to nearest even; for values far below the largest.
std::uint32_t round_to(float value, FloatShape shape) {
  const int bias = (1 << (shape.exponent_bits - 1)) - 1;
  int exponent = 0;
  const float magnitude = std::fabs(value);
  if (magnitude == 0) return 0;
  std::frexp(magnitude, &exponent);
  const int scale = std::max(exponent - 1, 1 - bias) - shape.mantissa_bits;
  const auto units = static_cast<std::uint32_t>(std::nearbyint(std::ldexp(magnitude, -scale)));
  // Units of a normal number hold the hidden bit, which is worth one in the exponent's field.
  const int field = scale + shape.mantissa_bits + bias - 1;
  const std::uint32_t bits = units + (static_cast<std::uint32_t>(field) << shape.mantissa_bits);
  return bits | (std::signbit(value) ? 1U << (shape.exponent_bits + shape.mantissa_bits) : 0);
}

std::uint32_t round_bf16(float value) {
  std::uint32_t bits;
  std::memcpy(&bits, &value, 4);
  return (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
}

// Fills both states and counts the differences.
template <class Bits>
std::uint64_t fill_masters(DataType type, std::uint64_t count, float sigma, float step, Steps steps,
                           Bits* base, Bits* target) {
  Random random(3);
  const FloatShape shape = shape_of(type);
  std::uint64_t changed = 0;
  for (std::uint64_t i = 0; i < count; ++i) {
    const float master = sigma * random.normal();
    const float direction = random.normal();
    const float after =
        master + step * (steps == Steps::kNormal ? direction : std::copysign(1.0F, direction));
    const bool is_bf16 = type == DataType::kBfloat16;
    base[i] = static_cast<Bits>(is_bf16 ? round_bf16(master) : round_to(master, shape));
    target[i] = static_cast<Bits>(is_bf16 ? round_bf16(after) : round_to(after, shape));
    changed += base[i] != target[i];
  }
  return changed;
}

template <class Bits>
void make_masters(Input& input, double density, Steps steps) {
  // fp8 has few exponents: weights are scaled into them.
  const float sigma = element_bytes(input.type) == 1 ? 1.0F : 0.02F;
  const std::uint64_t sample = std::min<std::uint64_t>(input.elements, 1 << 18);
  double low = 1e-9;
  double high = 10;
  for (int i = 0; i < 30; ++i) {
    const double step = std::sqrt(low * high);
    const std::uint64_t changed =
        fill_masters(input.type, sample, sigma, static_cast<float>(step), steps,
                     input.base.as<Bits>(), input.target.as<Bits>());
    (static_cast<double>(changed) < density * static_cast<double>(sample) ? low : high) = step;
  }
  fill_masters(input.type, input.elements, sigma, static_cast<float>(high), steps,
               input.base.as<Bits>(), input.target.as<Bits>());
}

Input blank(const char* kind, std::string name, DataType type, std::uint64_t elements) {
  Input input;
  input.kind = kind;
  input.name = std::move(name);
  input.type = type;
  input.elements = elements;
  input.base = HugeBuffer(input.bytes());
  input.target = HugeBuffer(input.bytes());
  return input;
}

void find_limits(Input& input) {
  input.limits = limits_of(input.type, input.base.data(), input.target.data(), input.elements);
}

// first(random) is the old state of an element, next(old, random) the new one.
template <class T>
Input each(const std::string& name, DataType type, std::uint64_t elements,
           const std::function<T(Random&)>& first, const std::function<T(T, Random&)>& next) {
  Input input = blank("types", name, type, elements);
  Random random(4);
  for (std::uint64_t i = 0; i < elements; ++i) {
    input.base.as<T>()[i] = first(random);
    input.target.as<T>()[i] = next(input.base.as<T>()[i], random);
  }
  find_limits(input);
  return input;
}

template <class Bits>
Input masters_of(DataType type, std::uint64_t elements, double density, Steps steps) {
  const char* kind = steps == Steps::kNormal ? "masters" : "one size";
  Input input = blank(kind, fmt::format("{} {:g} % {}", kind, density * 100, info(type).name), type,
                      elements);
  make_masters<Bits>(input, density, steps);
  find_limits(input);
  return input;
}

using Maker = std::function<Input(const std::string& name, std::uint64_t elements)>;
struct Typed {
  const char* name;
  Maker make;
};

template <class T>
Maker each_of(DataType type, std::function<T(Random&)> first, std::function<T(T, Random&)> next) {
  return [=](const std::string& name, std::uint64_t elements) {
    return each<T>(name, type, elements, first, next);
  };
}

Maker masters_maker(DataType type, double density, bool fresh = false) {
  return [=](const std::string& name, std::uint64_t elements) {
    Input input = masters_input(type, elements, density);
    input.kind = "types";
    input.name = name;
    input.fresh = fresh;
    return input;
  };
}

const std::vector<Typed>& typed() {
  const auto weight = [](Random& r) { return 0.02F * r.normal(); };
  const auto weight64 = [](Random& r) { return 0.02 * static_cast<double>(r.normal()); };
  const auto square = [](Random& r) {
    const float g = 1e-3F * r.normal();
    return g * g;
  };
  static const std::vector<Typed> all = {
      {"bf16 whole, no base", masters_maker(DataType::kBfloat16, 0.01, true)},
      {"bf16 masters 50 %", masters_maker(DataType::kBfloat16, 0.5)},
      {"fp16 masters 1 %", masters_maker(DataType::kFloat16, 0.01)},
      {"fp16 masters 30 %", masters_maker(DataType::kFloat16, 0.3)},
      {"fp8 e4m3 masters 1 %", masters_maker(DataType::kFloat8e4m3, 0.01)},
      {"fp8 e5m2 masters 1 %", masters_maker(DataType::kFloat8e5m2, 0.01)},
      {"fp32 1 % relative noise",
       each_of<float>(
           DataType::kFloat32, weight,
           [](float v, Random& r) { return r.with(0.01) ? v * (1 + 1e-3F * r.normal()) : v; })},
      {"fp32 all, steps of 1e-6",
       each_of<float>(DataType::kFloat32, weight,
                      [](float v, Random& r) { return v + 1e-6F * r.normal(); })},
      {"fp32 Adam, first moment",
       each_of<float>(
           DataType::kFloat32, [](Random& r) { return 3e-4F * r.normal(); },
           [](float v, Random& r) { return 0.9F * v + 0.1F * 1e-3F * r.normal(); })},
      {"fp32 Adam, second moment",
       each_of<float>(DataType::kFloat32, square,
                      [square](float v, Random& r) { return 0.999F * v + 0.001F * square(r); })},
      {"fp64 all, steps of 1e-6", each_of<double>(DataType::kFloat64, weight64,
                                                  [](double v, Random& r) {
                                                    return v +
                                                           1e-6 * static_cast<double>(r.normal());
                                                  })},
      {"int8 quantised 1 %, one step",
       each_of<std::int8_t>(
           DataType::kInt8, [](Random& r) { return static_cast<std::int8_t>(30 * r.normal()); },
           [](std::int8_t v, Random& r) {
             return r.with(0.01) ? static_cast<std::int8_t>(v + ((r.bits() & 1) != 0 ? 1 : -1)) : v;
           })},
      {"int64 counters, 5 % count on",
       each_of<std::int64_t>(
           DataType::kInt64, [](Random& r) { return static_cast<std::int64_t>(r.below(1 << 20)); },
           [](std::int64_t v, Random& r) {
             return r.with(0.05) ? v + 1 + static_cast<std::int64_t>(r.gap(0.3)) : v;
           })},
      {"bool mask, 1 % flips",
       each_of<std::uint8_t>(
           DataType::kBool, [](Random& r) { return static_cast<std::uint8_t>(r.bits() & 1); },
           [](std::uint8_t v, Random& r) {
             return static_cast<std::uint8_t>(r.with(0.01) ? 1 - v : v);
           })},
  };
  return all;
}

}  // namespace

Input masters_input(DataType type, std::uint64_t elements, double density, Steps steps) {
  return element_bytes(type) == 1 ? masters_of<std::uint8_t>(type, elements, density, steps)
                                  : masters_of<std::uint16_t>(type, elements, density, steps);
}

std::vector<std::string> typed_names() {
  std::vector<std::string> names;
  for (const Typed& row : typed()) names.emplace_back(row.name);
  return names;
}

Input typed_input(const std::string& name, std::uint64_t elements) {
  for (const Typed& row : typed()) {
    if (name == row.name) return row.make(name, elements);
  }
  return {};
}

}  // namespace sparcl::bench
