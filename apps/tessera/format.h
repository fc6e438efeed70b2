#pragma once
// Numbers and tables for people to read. Pure functions; JSON output never goes through here.
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

// Decimal units, as disks and networks are sold: "512 B", "98.4 MB", "1.12 GB".
std::string human_bytes(uint64_t bytes);

// "0 ms", "480 ms", "7.5 s", "10 m 51 s", "2 h 03 m", "3 d 04 h". Negative and non-finite values
// are "?".
std::string human_duration(double seconds);

// Digits in groups of three: "491,400,064".
std::string human_count(uint64_t value);

// "1 question", "1,024 questions"; for nouns whose plural ends in an s.
std::string counted(uint64_t n, std::string_view noun);

// How a time compares with full prefill's, of which it is 1 / `ratio`: "5.31 times sooner", "1.41
// times later".
std::string sooner_text(double ratio);

// A loss against full prefill to four digits; what is below 0 is "gain 0.0200".
std::string loss_text(double loss);

// A text table whose columns are as wide as their widest cell, counted in characters.
class Table {
 public:
  enum class Align { kLeft, kRight };
  struct Column {
    std::string title;
    Align align = Align::kLeft;
  };

  explicit Table(std::vector<Column> columns);

  // Missing cells are empty. More cells than columns is a programmer error.
  void add_row(std::vector<std::string> cells);

  // Title line and rows, each ended by a newline, without trailing blanks.
  std::string text() const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace tessera
