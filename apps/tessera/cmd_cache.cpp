#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "eval/reference_cache.h"
#include "store/blob_file.h"
#include "store/score_store.h"
#include "store/tier.h"
#include "store/variant_index.h"
#include "tessera/command.h"
#include "tessera/format.h"
#include "tessera/workspace.h"

namespace tessera {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Entry {
  ChunkKey key;
  fs::path file;
  uint64_t bytes = 0;
  double age_s = 0;                 // since it was last used
  std::optional<int32_t> n_tokens;  // nothing when its header cannot be read
};

// The disk tier, and every blob file in its folder, least recently used first. The tier lists only
// blobs whose header makes sense; one that is damaged must still be seen, counted and cleared, so
// the files themselves are listed.
class DiskCache {
 public:
  DiskCache() : dir_(kv_dir()), tier_(make_tier("disk", {.dir = dir_})) {}

  const fs::path& dir() const { return dir_; }
  Tier& tier() { return *tier_; }

  std::vector<Entry> entries() {
    std::map<ChunkKey, int32_t> n_tokens;
    tier_->for_each([&](const TierEntry& entry) {
      n_tokens[entry.key] = entry.n_tokens;
      return true;
    });
    std::vector<Entry> found;
    std::error_code failed;
    const auto now = fs::file_time_type::clock::now();
    for (fs::recursive_directory_iterator it(dir_, failed), end; !failed && it != end;
         it.increment(failed)) {
      const std::optional<ChunkKey> key = key_from_hex(it->path().filename().string());
      std::error_code gone;  // another process may evict while we look
      if (!key || !it->is_regular_file(gone)) continue;
      Entry entry;
      entry.key = *key;
      entry.file = it->path();
      entry.bytes = it->file_size(gone);
      const fs::file_time_type written = gone ? now : it->last_write_time(gone);
      if (gone) continue;
      entry.age_s = std::chrono::duration<double>(now - blob_time(written).last_use).count();
      if (const auto known = n_tokens.find(*key); known != n_tokens.end())
        entry.n_tokens = known->second;
      found.push_back(entry);
    }
    std::ranges::sort(found, std::ranges::greater{}, &Entry::age_s);
    return found;
  }

 private:
  fs::path dir_;
  std::unique_ptr<Tier> tier_;
};

uint64_t bytes_of(const std::vector<Entry>& entries) {
  uint64_t bytes = 0;
  for (const Entry& entry : entries) bytes += entry.bytes;
  return bytes;
}

// What lies beside the tiers, in files of its own.
struct Pile {
  std::string_view name;  // in JSON
  std::string_view noun;  // of an entry
  std::string_view text;  // with {} for the entries and for the bytes
  uint64_t entries = 0;
  uint64_t bytes = 0;  // of the files
  std::vector<fs::path> files = {};
};

// Of no file there are none: looking must not make one. One that is no database has no entries, but
// is seen and cleared like another.
template <typename Records>
void add_database(Pile& pile, const fs::path& database) {
  std::error_code failed;
  if (!fs::exists(database, failed)) return;
  pile.entries = Records(database).stats().entries;
  for (const char* suffix : {"", "-wal", "-shm"}) {  // SQLite's own beside it
    const fs::path file = database.string() + suffix;
    if (!fs::exists(file, failed)) continue;
    const uint64_t bytes = fs::file_size(file, failed);
    if (!failed) pile.bytes += bytes;
    pile.files.push_back(file);
  }
}

std::vector<Pile> piles() {
  Pile scores = {"scores", "chunk", "scores of {}, {}"};
  add_database<ScoreStore>(scores, scores_file());
  Pile variants = {"variants", "variant", "{} (chunks kept from answers), index {}"};
  add_database<VariantIndex>(variants, variants_file());
  Pile references = {"references", "question", "full prefill's answers to {} of eval, {}"};
  for (const ReferenceFile& file : reference_files(eval_reference_dir())) {
    ++references.entries;
    references.bytes += file.bytes;
    references.files.push_back(file.path);
  }
  return {scores, variants, references};
}

void add_to(json& out, const std::vector<Pile>& all) {
  for (const Pile& pile : all)
    out[std::string(pile.name)] = {{"entries", pile.entries}, {"bytes", pile.bytes}};
}

// "" for nothing.
std::string text_of(const std::vector<Pile>& all) {
  std::string out;
  for (const Pile& pile : all) {
    if (pile.files.empty()) continue;
    out += fmt::format(fmt::runtime(pile.text), counted(pile.entries, pile.noun),
                       human_bytes(pile.bytes)) +
           "\n";
  }
  return out;
}

void stats(const Session& session) {
  DiskCache cache;
  const std::vector<Entry> entries = cache.entries();
  uint64_t n_tokens = 0;
  size_t n_unreadable = 0;
  for (const Entry& entry : entries) {
    n_tokens += static_cast<uint64_t>(entry.n_tokens.value_or(0));
    n_unreadable += entry.n_tokens ? 0 : 1;
  }
  const uint64_t bytes = bytes_of(entries);
  const std::vector<Pile> beside = piles();
  if (session.json()) {
    json out = {{"tiers",
                 {{{"tier", "disk"},
                   {"dir", cache.dir().string()},
                   {"entries", entries.size()},
                   {"bytes", bytes},
                   {"tokens", n_tokens},
                   {"unreadable", n_unreadable}}}}};
    add_to(out, beside);
    return session.print_json(out);
  }
  Table table({{"tier"},
               {"entries", Table::Align::kRight},
               {"size", Table::Align::kRight},
               {"tokens", Table::Align::kRight},
               {"per token", Table::Align::kRight},
               {"folder"}});
  table.add_row({"disk", human_count(entries.size()), human_bytes(bytes), human_count(n_tokens),
                 n_tokens == 0 ? "-" : human_bytes(bytes / n_tokens), cache.dir().string()});
  session.print(table.text());
  session.print(text_of(beside));
  if (n_unreadable != 0) {
    session.print(
        fmt::format("{} unreadable: 'tessera cache verify' removes them\n", n_unreadable));
  }
}

// A stored chunk with all that is recorded of it.
struct Listed {
  Entry entry;
  std::optional<Lineage> lineage;  // nothing when its header cannot be read
  bool is_recorded = false;        // soft matches find it by `record`
  ListedVariant record = {};
};

// Of no file there are none: looking must not make one.
std::map<ChunkKey, ListedVariant> variants_by_blob() {
  std::map<ChunkKey, ListedVariant> out;
  std::error_code failed;
  if (!fs::exists(variants_file(), failed)) return out;
  for (const ListedVariant& v : VariantIndex(variants_file()).list())
    out.emplace(v.variant.blob, v);
  return out;
}

std::vector<Listed> listed_chunks() {
  const std::map<ChunkKey, ListedVariant> variants = variants_by_blob();
  std::vector<Listed> out;
  for (const Entry& entry : DiskCache().entries()) {
    Listed& listed = out.emplace_back();
    listed.entry = entry;
    // Only of what the tier believes.
    if (const auto header = entry.n_tokens ? read_blob_header(entry.file) : std::nullopt)
      listed.lineage = header->lineage;
    if (const auto found = variants.find(entry.key); found != variants.end()) {
      listed.is_recorded = true;
      listed.record = found->second;
    }
  }
  return out;
}

// A preamble that was made for an index run tells no more than the chunks that were.
std::string_view kind_name(const Lineage& lineage) {
  if (lineage.approximation_depth > 0) return "variant";
  return is_in_context(lineage) ? "exact" : "anchored";
}

json or_null(const ChunkKey& key) { return key == ChunkKey{} ? json(nullptr) : json(key.hex()); }

json to_json(const Listed& l) {
  const Company& company = l.record.variant.company;
  return {{"key", l.entry.key.hex()},
          {"tier", "disk"},
          {"tokens", l.entry.n_tokens ? json(*l.entry.n_tokens) : json(nullptr)},
          {"bytes", l.entry.bytes},
          {"age_s", l.entry.age_s},
          {"kind", l.lineage ? json(kind_name(*l.lineage)) : json(nullptr)},
          {"depth", l.lineage ? json(l.lineage->approximation_depth) : json(nullptr)},
          {"uses", l.is_recorded ? json(l.record.uses) : json(nullptr)},
          {"chunk", or_null(l.record.chunk)},
          {"predecessor", or_null(company.predecessor)},
          {"sink", or_null(company.sink)}};
}

std::vector<std::string> row_of(const Listed& l) {
  constexpr size_t kKeyDigits = 16, kDigits = 8;
  const auto brief = [](const ChunkKey& key) {
    return key == ChunkKey{} ? "-" : key.hex().substr(0, kDigits);
  };
  const Company& company = l.record.variant.company;
  return {l.entry.key.hex().substr(0, kKeyDigits),
          l.lineage ? std::string(kind_name(*l.lineage)) : "?",
          l.entry.n_tokens ? human_count(static_cast<uint64_t>(*l.entry.n_tokens)) : "?",
          human_bytes(l.entry.bytes),
          l.lineage ? fmt::format("{}", l.lineage->approximation_depth) : "?",
          l.is_recorded ? fmt::format("{}", l.record.uses) : "-",
          brief(l.record.chunk),
          brief(company.predecessor),
          brief(company.sink),
          human_duration(std::max(0.0, l.entry.age_s))};
}

void list(const Session& session) {
  constexpr auto kRight = Table::Align::kRight;
  Table table({{"key"},
               {"kind"},
               {"tokens", kRight},
               {"size", kRight},
               {"depth", kRight},
               {"uses", kRight},
               {"chunk"},
               {"predecessor"},
               {"sink"},
               {"last used", kRight}});
  json listed = json::array();
  for (const Listed& chunk : listed_chunks()) {
    listed.push_back(to_json(chunk));
    table.add_row(row_of(chunk));
  }
  if (session.json()) {
    session.print_json({{"entries", listed}});
  } else {
    session.print(table.text());
  }
}

// Reads every blob. The tier removes those that are damaged: they could only ever be misses.
void verify(Session& session) {
  DiskCache cache;
  const std::vector<Entry> entries = cache.entries();
  std::map<Verdict, std::vector<std::string>> keys;
  {
    ProgressBar bar(session, "verify", entries.size(), ProgressBar::Unit::kItems);
    uint64_t n_done = 0;
    for (const Entry& entry : entries) {
      session.throw_if_stopped();
      keys[cache.tier().verify(entry.key)].push_back(entry.key.hex());
      bar.update(++n_done);
    }
  }
  const std::vector<std::string>& gone = keys[Verdict::kGone];  // others may evict while we look
  const std::vector<std::string>& damaged = keys[Verdict::kDamaged];
  const std::vector<std::string>& unknown = keys[Verdict::kUnknown];
  if (session.json()) {
    session.print_json({{"entries", entries.size()},
                        {"bytes", bytes_of(entries)},
                        {"gone", gone},
                        {"damaged", damaged},
                        {"unknown", unknown}});
  } else {
    session.print(
        fmt::format("{} entries, {}: {} good, {} damaged{}{}{}\n", entries.size(),
                    human_bytes(bytes_of(entries)), keys[Verdict::kGood].size(), damaged.size(),
                    damaged.empty() ? "" : " and removed",
                    gone.empty() ? "" : fmt::format(", {} gone meanwhile", gone.size()),
                    unknown.empty() ? "" : fmt::format(", {} could not be read", unknown.size())));
    for (const std::string& key : damaged) session.print(fmt::format("damaged {}\n", key));
    for (const std::string& key : unknown)
      session.print(fmt::format("could not be read {}\n", key));
  }
  if (!damaged.empty() || !unknown.empty()) session.set_exit_status(kExitFailed);
}

// Each file that stays is said with its reason. One that is gone already is no failure.
void remove_all(Session& session, const Pile& pile) {
  for (const fs::path& file : pile.files) {
    std::error_code failed;
    fs::remove(file, failed);
    if (!failed) continue;
    session.note(fmt::format("{} could not be removed: {}", file.string(), failed.message()));
    session.set_exit_status(kExitFailed);
  }
}

void clear(Session& session, bool is_confirmed) {
  DiskCache cache;
  const std::vector<Entry> entries = cache.entries();
  std::vector<Entry> deleted;
  if (is_confirmed) {
    for (const Entry& entry : entries) {
      if (session.stop_token().stop_requested()) break;
      if (cache.tier().erase(entry.key)) deleted.push_back(entry);
    }
  }
  const std::vector<Pile> beside = piles();
  if (is_confirmed) {
    sweep_temp_files(eval_reference_dir());
    for (const Pile& pile : beside) remove_all(session, pile);
  }
  const std::vector<Entry>& counted = is_confirmed ? deleted : entries;
  const uint64_t bytes = bytes_of(counted);
  const size_t n_left = is_confirmed ? cache.entries().size() : entries.size();
  if (session.json()) {
    json out = {{"dry_run", !is_confirmed},
                {"deleted", deleted.size()},
                {"bytes_freed", bytes_of(deleted)},
                {"would_delete", is_confirmed ? 0 : entries.size()},
                {"left", n_left}};
    add_to(out, beside);
    session.print_json(out);
  } else if (is_confirmed) {
    session.print(fmt::format("deleted {} entries, {} (disk)\n{}", counted.size(),
                              human_bytes(bytes), text_of(beside)));
  } else {
    session.print(fmt::format("would delete {} entries, {} (disk)\n{}--yes to do it\n",
                              counted.size(), human_bytes(bytes), text_of(beside)));
  }
  if (is_confirmed && n_left != 0) {
    session.note(fmt::format(
        "{} entries are left: the system refused to remove them, or they are new", n_left));
    session.set_exit_status(kExitFailed);
  }
}

}  // namespace

void add_cache(CLI::App& app, Session& session) {
  CLI::App* cache = app.add_subcommand("cache", "look at the stored KV, check it, clear it");
  cache->require_subcommand(1);
  cache->add_subcommand("stats", "how much is stored")->callback([&session] { stats(session); });
  cache
      ->add_subcommand("ls",
                       "every stored chunk, how it was made and in what company, least recently "
                       "used first")
      ->callback([&session] { list(session); });
  cache->add_subcommand("verify", "read everything and remove what is damaged")
      ->callback([&session] { verify(session); });
  const auto is_confirmed = std::make_shared<bool>(false);
  CLI::App* clear_command =
      cache->add_subcommand("clear",
                            "delete all stored KV, what is recorded of chunks and full prefill's "
                            "answers of eval; without --yes only say what would go");
  clear_command->add_flag("--yes", *is_confirmed, "really delete");
  clear_command->callback([&session, is_confirmed] { clear(session, *is_confirmed); });
}

}  // namespace tessera
