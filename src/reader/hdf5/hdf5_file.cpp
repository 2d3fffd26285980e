// SPDX-License-Identifier: Apache-2.0
// Hyperslabs of HDF5 datasets; only this file and hdf5_chunks.cpp use libhdf5. The library may be built without thread
// safety, and every reader has a thread, so one lock of ours protects all calls.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <hdf5.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "reader/hdf5/crash_guard.h"
#include "reader/hdf5/hdf5_chunks.h"
#include "reader/hdf5/hdf5_handle.h"
#include "reader/hdf5/hdf5_rows.h"
#include "tutti/error.h"

namespace tutti::reader {
namespace {

constexpr double best_compression = 1100;  // more than any filter can do

constexpr std::size_t chunk_slots = 12'421, chunk_bytes = 32 << 20;  // of each dataset that is open

std::recursive_mutex& library_lock() {
  static std::recursive_mutex lock;
  return lock;
}

// The reason that the library gives: the innermost message of its error stack.
std::string library_reason() {
  std::string reason;
  H5Ewalk2(
      H5E_DEFAULT, H5E_WALK_DOWNWARD,
      [](unsigned, const H5E_error2_t* e, void* into) -> herr_t {
        if (e->desc && *e->desc) *static_cast<std::string*>(into) = e->desc;
        return 0;
      },
      &reason);
  return reason.empty() ? "the library gives no reason" : reason;
}

// Names of all datasets of the file, for messages.
std::vector<std::string> dataset_names(hid_t file) {
  std::vector<std::string> names;
  H5Ovisit1(
      file, H5_INDEX_NAME, H5_ITER_INC,
      // Versions 1.10 and 1.12 have different names for the same information.
      [](hid_t, const char* name, const auto* info, void* into) -> herr_t {
        if (info->type == H5O_TYPE_DATASET) static_cast<std::vector<std::string>*>(into)->emplace_back(name);
        return 0;
      },
      &names);
  return names;
}

// Bytes. A damaged type can claim gigabytes, which the library would allocate.
constexpr std::size_t kLargestNumber = 16;
constexpr std::uint64_t kMostTried = 16 << 20;  // bytes of a row

// What is wrong with the sizes that a dataset claims, or "". The library would allocate them.
std::string damaged_sizes(hid_t file, hid_t set, hid_t type) {
  if (const std::size_t size = H5Tget_size(type); size > kLargestNumber)
    return fmt::format("holds numbers of {} bytes each: it is damaged", size);
  const ListHandle made(H5Dget_create_plist(set));
  hsize_t file_size = 0;
  const hsize_t stored = H5Dget_storage_size(set);
  if (H5Pget_layout(made.get()) == H5D_CHUNKED && H5Fget_filesize(file, &file_size) >= 0 && stored > file_size)
    return fmt::format("should be stored in {} bytes, but the file has {}: it is damaged", stored, file_size);
  return {};
}

// Opens all datasets, and reads the first and the last row of each.
void look_through(const std::string& path) {
  const FileHandle file(H5Fopen(path.c_str(), H5F_ACC_RDONLY, H5P_DEFAULT));
  if (!file.good()) return;
  for (const std::string& name : dataset_names(file.get())) {
    const DatasetHandle set(H5Dopen2(file.get(), name.c_str(), H5P_DEFAULT));
    if (!set.good()) continue;
    const TypeHandle type(H5Dget_type(set.get()));
    if (!damaged_sizes(file.get(), set.get(), type.get()).empty()) continue;
    const SpaceHandle space(H5Dget_space(set.get()));
    const int rank = H5Sget_simple_extent_ndims(space.get());
    if (rank < 1) continue;
    std::vector<hsize_t> axes(static_cast<std::size_t>(rank));
    H5Sget_simple_extent_dims(space.get(), axes.data(), nullptr);
    double row = sizeof(double);
    for (std::size_t a = 1; a < axes.size(); ++a) row *= static_cast<double>(axes[a]);
    if (axes[0] == 0 || row <= 0 || row > kMostTried) continue;
    std::vector<double> values(static_cast<std::size_t>(row) / sizeof(double));
    std::vector<hsize_t> begin(axes.size(), 0), count(axes);
    count[0] = 1;
    const SpaceHandle here(H5Screate_simple(rank, count.data(), nullptr));
    Hdf5Chunks chunks(set.get(), axes);
    for (const hsize_t at : {hsize_t{0}, axes[0] - 1}) {
      if (!chunks.damage(at, 1).empty()) continue;
      begin[0] = at;
      if (H5Sselect_hyperslab(space.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr) >= 0)
        H5Dread(set.get(), H5T_NATIVE_DOUBLE, here.get(), space.get(), H5P_DEFAULT, values.data());
    }
  }
}

}  // namespace

std::uint64_t Hdf5Shape::row_size(std::size_t from_axis) const {
  return std::accumulate(axes.begin() + static_cast<std::ptrdiff_t>(from_axis), axes.end(), std::uint64_t{1},
                         std::multiplies<>());
}

struct Hdf5File::Dataset {
  DatasetHandle handle;
  Hdf5Shape shape;
  std::unique_ptr<Hdf5Chunks> chunks;
};

struct Hdf5File::Open {
  FileHandle file;
  std::map<std::string, Dataset> datasets;
};

Hdf5File::Hdf5File(std::string path) : path_(std::move(path)), open_(std::make_unique<Open>()) {
  const std::lock_guard lock(library_lock());
  try_in_child(path_, [this] {
    H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
    look_through(path_);
  });
  const CrashGuard guard(path_.c_str());
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);  // we say ourselves what went wrong
  const ListHandle access(H5Pcreate(H5P_FILE_ACCESS));
  // Reading needs no lock on the file, and file systems of clusters often have none.
  H5Pset_file_locking(access.get(), false, true);
  open_->file = FileHandle(H5Fopen(path_.c_str(), H5F_ACC_RDONLY, access.get()));
  if (!open_->file.good()) throw Error(fmt::format("opening the HDF5 file '{}': {}", path_, library_reason()));
}

Hdf5File::~Hdf5File() {
  const std::lock_guard lock(library_lock());
  const CrashGuard guard(path_.c_str());
  open_.reset();
}

Hdf5File::Dataset& Hdf5File::dataset(const std::string& name) {
  const auto known = open_->datasets.find(name);
  if (known != open_->datasets.end()) return known->second;
  Dataset d;
  // Compressed chunks stay unpacked for the next minibatch, where they fit.
  const ListHandle access(H5Pcreate(H5P_DATASET_ACCESS));
  H5Pset_chunk_cache(access.get(), chunk_slots, chunk_bytes, 1.0);
  d.handle = DatasetHandle(H5Dopen2(open_->file.get(), name.c_str(), access.get()));
  if (!d.handle.good()) {
    const std::string reason = library_reason();
    const auto names = dataset_names(open_->file.get());
    const std::string near = nearest(name, names);
    if (std::find(names.begin(), names.end(), name) != names.end())
      throw Error(fmt::format("opening the dataset '{}' of the HDF5 file '{}': {}", name, path_, reason));
    throw Error(fmt::format("the HDF5 file '{}' has no dataset '{}'; {}it has: {}", path_, name,
                            near.empty() ? "" : fmt::format("did you mean '{}'? ", near), fmt::join(names, ", ")));
  }
  const auto fail = [&](const std::string& why) {
    throw Error(fmt::format("the dataset '{}' of the HDF5 file '{}' {}", name, path_, why));
  };
  const TypeHandle type(H5Dget_type(d.handle.get()));
  const H5T_class_t kind = H5Tget_class(type.get());
  if (kind != H5T_INTEGER && kind != H5T_FLOAT) fail("holds no numbers: only whole numbers and fractions can be read");
  if (const std::string why = damaged_sizes(open_->file.get(), d.handle.get(), type.get()); !why.empty()) fail(why);
  const SpaceHandle space(H5Dget_space(d.handle.get()));
  const int rank = H5Sget_simple_extent_ndims(space.get());
  if (rank < 1) fail("is a single value; its first axis must count the samples");
  std::vector<hsize_t> axes(static_cast<std::size_t>(rank));
  H5Sget_simple_extent_dims(space.get(), axes.data(), nullptr);
  d.shape.axes.assign(axes.begin(), axes.end());
  for (int a = 1; a < rank; ++a)
    if (axes[static_cast<std::size_t>(a)] == 0) fail("has an axis of length 0");
  // A damaged shape can claim any size, and the library would search for the data.
  double bytes = static_cast<double>(H5Tget_size(type.get()));
  for (const hsize_t a : axes) bytes *= static_cast<double>(a);
  const auto stored = static_cast<double>(H5Dget_storage_size(d.handle.get()));
  if (bytes > best_compression * stored)
    fail(fmt::format("should be {:.0f} bytes, but {:.0f} are stored: it is damaged, or was never written", bytes,
                     stored));
  d.chunks = std::make_unique<Hdf5Chunks>(d.handle.get(), axes);
  return open_->datasets.emplace(name, std::move(d)).first->second;
}

Hdf5Shape Hdf5File::shape(const std::string& name) {
  const std::lock_guard lock(library_lock());
  const CrashGuard guard(path_.c_str());
  return dataset(name).shape;
}

void Hdf5File::read_as(std::int64_t type, const std::string& name, std::uint64_t first, std::uint64_t rows, void* out) {
  if (rows == 0) return;
  const std::lock_guard lock(library_lock());
  const CrashGuard guard(path_.c_str());
  Dataset& d = dataset(name);
  if (const std::string why = d.chunks->damage(first, rows); !why.empty())
    throw Error(fmt::format("the dataset '{}' of the HDF5 file '{}' {}", name, path_, why));
  std::vector<hsize_t> begin(d.shape.axes.size(), 0), count(d.shape.axes.begin(), d.shape.axes.end());
  begin[0] = first;
  count[0] = rows;
  const SpaceHandle there(H5Dget_space(d.handle.get()));
  const SpaceHandle here(H5Screate_simple(static_cast<int>(count.size()), count.data(), nullptr));
  if (H5Sselect_hyperslab(there.get(), H5S_SELECT_SET, begin.data(), nullptr, count.data(), nullptr) < 0 ||
      H5Dread(d.handle.get(), static_cast<hid_t>(type), here.get(), there.get(), H5P_DEFAULT, out) < 0)
    throw Error(fmt::format("reading rows {} to {} of the dataset '{}' of the HDF5 file '{}': {}", first,
                            first + rows - 1, name, path_, library_reason()));
}

void Hdf5File::read(const std::string& name, std::uint64_t first, std::uint64_t rows, float* out) {
  read_as(H5T_NATIVE_FLOAT, name, first, rows, out);
}

void Hdf5File::read(const std::string& name, std::uint64_t first, std::uint64_t rows, double* out) {
  read_as(H5T_NATIVE_DOUBLE, name, first, rows, out);
}

}  // namespace tutti::reader
