#include "store/variant_index.h"

#include <optional>
#include <string>
#include <string_view>

#include "base/sqlite.h"

namespace tessera {
namespace {

// `last_used` counts the puts and uses of one chunk. A clock would not do: processes on one file
// have to agree on the order.
constexpr RecordKind kKind = {
    .application_id = 0x54564152,  // "TVAR"
    .plural = "variants of chunks",
    .schema =
        "CREATE TABLE IF NOT EXISTS variant (chunk TEXT, blob TEXT, predecessor TEXT, "
        "sink TEXT, owns_blob INTEGER, uses INTEGER, last_used INTEGER, "
        "PRIMARY KEY (chunk, blob))"};

struct Row {
  int64_t id = 0;
  std::optional<Variant> variant;  // nothing: damaged, some key of it is none
};

std::optional<Variant> variant_of(const Statement& row) {
  const std::optional<ChunkKey> blob = key_from_hex(row.text(1));
  const std::optional<ChunkKey> predecessor = key_from_hex(row.text(2));
  const std::optional<ChunkKey> sink = key_from_hex(row.text(3));
  if (!blob || !predecessor || !sink) return std::nullopt;
  return Variant{*blob, {*predecessor, *sink}, row.integer(4) != 0};
}

// Most used first, of equals the latest.
std::vector<Row> read_rows(Database& database, std::string_view chunk) {
  Statement select(database,
                   "SELECT rowid, blob, predecessor, sink, owns_blob FROM variant "
                   "WHERE chunk = ? ORDER BY uses DESC, last_used DESC");
  select.bind(1, chunk);
  std::vector<Row> rows;
  while (select.step()) rows.push_back({select.integer(0), variant_of(select)});
  return rows;
}

void drop(Database& database, const Row& row) {
  Statement(database, "DELETE FROM variant WHERE rowid = ?").bind(1, row.id).run();
}

// Reads the rows anew: since they were found damaged, another process may have mended them.
void drop_damaged(Database& database, std::string_view chunk) {
  WriteTransaction transaction(database);
  for (const Row& row : read_rows(database, chunk))
    if (!row.variant) drop(database, row);
  transaction.commit();
}

// Drops what `variant` replaces, what is damaged, and the least used above the bound. Returns those
// whose blob no row of the chunk names from now on.
std::vector<Variant> make_room(Database& database, std::string_view chunk, const Variant& variant) {
  std::vector<Variant> gone;
  int32_t n_staying = 0;
  bool is_over_bound = false;
  for (const Row& row : read_rows(database, chunk)) {
    const bool is_replaced = !row.variant || row.variant->blob == variant.blob ||
                             row.variant->company == variant.company;
    if (!is_replaced && n_staying < VariantIndex::kMaxVariants - 1) {
      ++n_staying;
      continue;
    }
    if (!is_replaced) is_over_bound = true;
    drop(database, row);
    if (row.variant && row.variant->blob != variant.blob) gone.push_back(*row.variant);
  }
  if (is_over_bound)
    Statement(database, "UPDATE variant SET uses = uses / 2 WHERE chunk = ?").bind(1, chunk).run();
  return gone;
}

void insert(Database& database, std::string_view chunk, const Variant& variant) {
  const std::string blob = variant.blob.hex();
  const std::string predecessor = variant.company.predecessor.hex();
  const std::string sink = variant.company.sink.hex();
  Statement statement(
      database,
      "INSERT INTO variant (chunk, blob, predecessor, sink, owns_blob, uses, last_used) "
      "VALUES (?1, ?2, ?3, ?4, ?5, 1, "
      "(SELECT coalesce(max(last_used), 0) + 1 FROM variant WHERE chunk = ?1))");
  statement.bind(1, chunk).bind(2, blob).bind(3, predecessor).bind(4, sink);
  statement.bind(5, int64_t{variant.owns_blob}).run();
}

}  // namespace

VariantIndex::VariantIndex(const std::filesystem::path& file) : file_(file, kKind) {}

std::vector<Variant> VariantIndex::find(const ChunkKey& chunk) {
  const std::lock_guard lock(mutex_);
  const std::string name = chunk.hex();
  std::vector<Variant> found;
  file_.guarded([&](Database& database) {
    const std::vector<Row> rows = read_rows(database, name);
    for (const Row& row : rows)
      if (row.variant) found.push_back(*row.variant);
    if (found.size() < rows.size()) drop_damaged(database, name);
  });
  return found;
}

bool VariantIndex::put(const ChunkKey& chunk, const Variant& variant, std::vector<Variant>& gone) {
  const std::lock_guard lock(mutex_);
  const std::string name = chunk.hex();
  std::vector<Variant> leaving;
  const bool is_kept = file_.guarded([&](Database& database) {
    WriteTransaction transaction(database);
    leaving = make_room(database, name, variant);
    insert(database, name, variant);
    transaction.commit();
  });
  if (is_kept) gone.insert(gone.end(), leaving.begin(), leaving.end());
  return is_kept;
}

void VariantIndex::count_use(const ChunkKey& chunk, const ChunkKey& blob) {
  const std::lock_guard lock(mutex_);
  const std::string name = chunk.hex(), blob_name = blob.hex();
  file_.guarded([&](Database& database) {
    Statement update(database,
                     "UPDATE variant SET uses = uses + 1, "
                     "last_used = (SELECT max(last_used) + 1 FROM variant WHERE chunk = ?1) "
                     "WHERE chunk = ?1 AND blob = ?2");
    update.bind(1, name).bind(2, blob_name).run();
  });
}

void VariantIndex::erase(const ChunkKey& chunk, const ChunkKey& blob) {
  const std::lock_guard lock(mutex_);
  const std::string name = chunk.hex(), blob_name = blob.hex();
  file_.guarded([&](Database& database) {
    Statement remove(database, "DELETE FROM variant WHERE chunk = ? AND blob = ?");
    remove.bind(1, name).bind(2, blob_name).run();
  });
}

void VariantIndex::clear() {
  const std::lock_guard lock(mutex_);
  file_.guarded([](Database& database) { database.execute("DELETE FROM variant"); });
}

VariantIndex::Stats VariantIndex::stats() {
  const std::lock_guard lock(mutex_);
  Stats out;
  file_.guarded([&](Database& database) {
    Statement count(database, "SELECT count(*) FROM variant");
    count.step();
    out.entries = static_cast<uint64_t>(count.integer(0));
  });
  out.errors = file_.errors();
  return out;
}

}  // namespace tessera
