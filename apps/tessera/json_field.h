#pragma once
// Reads a JSON record that a person may have edited, field by field. Refers to the record, which
// must outlive it; thread-safe.
#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/text_util.h"

namespace tessera {

// Why a record is not what it should be, in words for the user.
struct Unusable : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A value of a record under its full name, as in adaptive.step. What is not as expected is thrown
// as Unusable.
class Field {
 public:
  explicit Field(const nlohmann::json& value, std::string name = {})
      : value_(value), name_(std::move(name)) {}

  // Every member of an object.
  std::vector<std::pair<std::string, Field>> members() const {
    expect(value_.is_object(), "an object");
    std::vector<std::pair<std::string, Field>> out;
    for (const auto& [key, value] : value_.items()) out.emplace_back(key, Field(value, path(key)));
    return out;
  }
  std::optional<Field> find(const std::string& key) const {
    expect(value_.is_object(), "an object");
    const auto found = value_.find(key);
    return found == value_.end() ? std::nullopt : std::optional(Field(*found, path(key)));
  }
  Field at(const std::string& key) const {
    std::optional<Field> found = find(key);
    if (!found) throw Unusable(fmt::format("field {} is missing", quote(path(key))));
    return *std::move(found);
  }

  bool is_null() const { return value_.is_null(); }
  bool flag() const {
    expect(value_.is_boolean(), "true or false");
    return value_.get<bool>();
  }
  std::vector<Field> items() const {
    expect(value_.is_array(), "a list");
    std::vector<Field> out;
    for (const nlohmann::json& value : value_) out.emplace_back(value, name_);
    return out;
  }
  std::string text() const {
    expect(value_.is_string(), "a text");
    return value_.get<std::string>();
  }
  std::vector<std::string> texts() const {
    expect(value_.is_array(), "a list of texts");
    std::vector<std::string> out;
    for (const nlohmann::json& value : value_) out.push_back(Field(value, name_).text());
    return out;
  }
  int32_t integer(int32_t least, int32_t most) const {
    // As a double, which an integer that no int32_t holds fits in too.
    const double value = value_.is_number_integer() ? value_.get<double>() : least - 1.0;
    expect(value >= least && value <= most,
           fmt::format("a whole number from {} to {}", least, most));
    return static_cast<int32_t>(value);
  }
  double number() const { return within(-kLargest, kLargest, "a finite number"); }
  double number_from_0() const { return within(0, kLargest, "a finite number of 0 or more"); }
  double number_above_0() const { return within(kSmallest, kLargest, "a finite number above 0"); }
  // A value that is no share would be refused at every request from then on.
  double share() const { return within(0, 1, "a number from 0 to 1"); }

 private:
  static constexpr double kLargest = std::numeric_limits<double>::max();
  static constexpr double kSmallest = std::numeric_limits<double>::denorm_min();

  std::string path(const std::string& key) const { return name_.empty() ? key : name_ + "." + key; }
  double within(double least, double most, std::string_view what) const {
    const double value =
        value_.is_number() ? value_.get<double>() : std::numeric_limits<double>::quiet_NaN();
    expect(value >= least && value <= most, what);
    return value;
  }
  void expect(bool is_met, std::string_view what) const {
    if (is_met) return;
    const std::string who = name_.empty() ? "the whole" : "field " + quote(name_);
    throw Unusable(fmt::format("{} is {} where {} is expected", who, shown(), what));
  }
  std::string shown() const {
    if (value_.is_structured()) return fmt::format("an {}", value_.type_name());
    if (value_.is_string()) return quote(value_.get_ref<const std::string&>());
    // JSON writes null for what is not finite.
    return value_.is_number_float() ? fmt::format("{}", value_.get<double>()) : value_.dump();
  }

  const nlohmann::json& value_;
  std::string name_;
};

}  // namespace tessera
