#pragma once
// Ends a text at the first of some stop strings, holding back what may still become one. Not
// thread-safe; one per answer.
#include <string>
#include <string_view>
#include <vector>

namespace tessera {

class StopFilter {
 public:
  // Empty stop strings count as none.
  explicit StopFilter(std::vector<std::string> stops) : stops_(std::move(stops)) {}

  // Text that can be given out now, without the stop string and what follows it. Once stopped()
  // nothing more comes. `text` may be any bytes: pass whole characters to get whole characters.
  std::string push(std::string_view text);
  // What was held back, when generation ends without a stop string.
  std::string finish();
  bool stopped() const { return stopped_; }

 private:
  std::vector<std::string> stops_;
  std::string held_;
  bool stopped_ = false;
};

}  // namespace tessera
