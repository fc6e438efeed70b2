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
        "sink TEXT, depth INTEGER, owns_blob INTEGER, uses INTEGER, last_used INTEGER, "
        "PRIMARY KEY (chunk, blob))"};

struct Row {
  int64_t id = 0;
  int64_t uses = 0;
  std::optional<Variant> variant;  // nothing: damaged, some key of it is none
};

// Of the columns blob, predecessor, sink, depth and owns_blob, from the second one on.
std::optional<Variant> variant_of(const Statement& row) {
  const std::optional<ChunkKey> blob = key_from_hex(row.text(1));
  const std::optional<ChunkKey> predecessor = key_from_hex(row.text(2));
  const std::optional<ChunkKey> sink = key_from_hex(row.text(3));
  if (!blob || !predecessor || !sink) return std::nullopt;
  return Variant{
      *blob, {*predecessor, *sink}, static_cast<uint32_t>(row.integer(4)), row.integer(5) != 0};
}

// Most used first, of equals the latest.
std::vector<Row> read_rows(Database& database, std::string_view chunk) {
  Statement select(database,
                   "SELECT rowid, blob, predecessor, sink, depth, owns_blob, uses FROM variant "
                   "WHERE chunk = ? ORDER BY uses DESC, last_used DESC");
  select.bind(1, chunk);
  std::vector<Row> rows;
  while (select.step()) rows.push_back({select.integer(0), select.integer(6), variant_of(select)});
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

void halve_uses(Database& database, std::string_view chunk) {
  Statement(database, "UPDATE variant SET uses = uses / 2 WHERE chunk = ?").bind(1, chunk).run();
}

void insert(Database& database, std::string_view chunk, const Variant& variant, int64_t uses) {
  const std::string blob = variant.blob.hex();
  const std::string predecessor = variant.company.predecessor.hex();
  const std::string sink = variant.company.sink.hex();
  Statement statement(
      database,
      "INSERT INTO variant (chunk, blob, predecessor, sink, depth, owns_blob, uses, last_used) "
      "VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, "
      "(SELECT coalesce(max(last_used), 0) + 1 FROM variant WHERE chunk = ?1))");
  statement.bind(1, chunk).bind(2, blob).bind(3, predecessor).bind(4, sink);
  statement.bind(5, int64_t{variant.depth}).bind(6, int64_t{variant.owns_blob}).bind(7, uses).run();
}

// Inside a write transaction.
VariantIndex::Admission take_in(Database& database, std::string_view chunk, const Variant& variant,
                                std::vector<Variant>& gone) {
  std::vector<Row> others;  // of another company, most used first
  int64_t uses = 1;
  for (const Row& row : read_rows(database, chunk)) {
    if (!row.variant) {
      drop(database, row);
    } else if (row.variant->company != variant.company && row.variant->blob != variant.blob) {
      others.push_back(row);
    } else if (row.variant->depth <= variant.depth) {
      return VariantIndex::Admission::kPresent;
    } else {
      uses = row.uses;
      drop(database, row);
      if (row.variant->blob != variant.blob) gone.push_back(*row.variant);
    }
  }
  if (others.size() >= static_cast<size_t>(VariantIndex::kMaxVariants)) {
    const Row& least = others.back();
    if (least.uses > 0) {
      halve_uses(database, chunk);
      return VariantIndex::Admission::kRefused;
    }
    drop(database, least);
    if (least.variant) gone.push_back(*least.variant);
  }
  insert(database, chunk, variant, uses);
  return VariantIndex::Admission::kKept;
}

}  // namespace

VariantIndex::VariantIndex(const std::filesystem::path& file) : file_(file, kKind) {}

std::vector<Variant> VariantIndex::find(const ChunkKey& chunk) {
  const std::lock_guard lock(mutex_);
  const std::string name = chunk.hex();
  std::vector<Variant> found;
  bool is_damaged = false;
  file_.read([&](Database& database) {
    const std::vector<Row> rows = read_rows(database, name);
    for (const Row& row : rows)
      if (row.variant) found.push_back(*row.variant);
    is_damaged = found.size() < rows.size();
  });
  if (is_damaged) file_.write([&](Database& database) { drop_damaged(database, name); });
  return found;
}

std::vector<ListedVariant> VariantIndex::list() {
  const std::lock_guard lock(mutex_);
  std::vector<ListedVariant> listed;
  file_.read([&](Database& database) {
    Statement select(database,
                     "SELECT chunk, blob, predecessor, sink, depth, owns_blob, uses FROM variant");
    while (select.step()) {
      const std::optional<ChunkKey> chunk = key_from_hex(select.text(0));
      const std::optional<Variant> variant = variant_of(select);
      if (chunk && variant) listed.push_back({*chunk, *variant, select.integer(6)});
    }
  });
  return listed;
}

VariantIndex::Admission VariantIndex::admit(const ChunkKey& chunk, const Variant& variant,
                                            std::vector<Variant>& gone) {
  const std::lock_guard lock(mutex_);
  const std::string name = chunk.hex();
  std::vector<Variant> leaving;
  Admission admission = Admission::kFailed;
  const bool is_done = file_.write([&](Database& database) {
    WriteTransaction transaction(database);
    admission = take_in(database, name, variant, leaving);
    transaction.commit();
  });
  if (!is_done) return Admission::kFailed;
  gone.insert(gone.end(), leaving.begin(), leaving.end());
  return admission;
}

void VariantIndex::count_use(const ChunkKey& chunk, const ChunkKey& blob) {
  const std::lock_guard lock(mutex_);
  const std::string name = chunk.hex(), blob_name = blob.hex();
  file_.write([&](Database& database) {
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
  file_.write([&](Database& database) {
    Statement remove(database, "DELETE FROM variant WHERE chunk = ? AND blob = ?");
    remove.bind(1, name).bind(2, blob_name).run();
  });
}

void VariantIndex::clear() {
  const std::lock_guard lock(mutex_);
  file_.write([](Database& database) { database.execute("DELETE FROM variant"); });
}

VariantIndex::Stats VariantIndex::stats() {
  const std::lock_guard lock(mutex_);
  Stats out;
  file_.read([&](Database& database) {
    Statement count(database, "SELECT count(*) FROM variant");
    count.step();
    out.entries = static_cast<uint64_t>(count.integer(0));
  });
  out.errors = file_.errors();
  return out;
}

}  // namespace tessera
