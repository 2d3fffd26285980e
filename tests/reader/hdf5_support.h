// SPDX-License-Identifier: Apache-2.0
// hdf5_support.h -- writes small HDF5 files for tests.
#pragma once

#include <gtest/gtest.h>
#include <hdf5.h>
#include <zlib.h>

#include <string>
#include <type_traits>
#include <vector>

namespace tutti::reader {

class Hdf5Writer {
 public:
  explicit Hdf5Writer(const std::string& path)
      : file_(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, H5P_DEFAULT)) {
    EXPECT_GE(file_, 0);
  }
  ~Hdf5Writer() { H5Fclose(file_); }
  Hdf5Writer(const Hdf5Writer&) = delete;
  Hdf5Writer& operator=(const Hdf5Writer&) = delete;

  // `rows_per_chunk` > 0 stores the data in chunks with checksums; `type` is how the numbers are stored.
  template <class T>
  void add(const std::string& name, const std::vector<hsize_t>& axes, const std::vector<T>& data,
           hid_t type = native<T>(), hsize_t rows_per_chunk = 0) {
    hsize_t count = 1;
    for (const hsize_t a : axes) count *= a;
    ASSERT_EQ(count, data.size());
    const hid_t space = H5Screate_simple(static_cast<int>(axes.size()), axes.data(), nullptr);
    const hid_t how = H5Pcreate(H5P_DATASET_CREATE), links = H5Pcreate(H5P_LINK_CREATE);
    H5Pset_create_intermediate_group(links, 1);
    if (rows_per_chunk > 0) {
      std::vector<hsize_t> chunk = axes;
      chunk[0] = rows_per_chunk;
      H5Pset_chunk(how, static_cast<int>(chunk.size()), chunk.data());
      H5Pset_fletcher32(how);
    }
    const hid_t set = H5Dcreate2(file_, name.c_str(), type, space, links, how, H5P_DEFAULT);
    ASSERT_GE(set, 0);
    EXPECT_GE(H5Dwrite(set, native<T>(), H5S_ALL, H5S_ALL, H5P_DEFAULT, data.data()), 0);
    H5Dclose(set);
    H5Pclose(links);
    H5Pclose(how);
    H5Sclose(space);
  }

  // Two rows of two floats per chunk, which is stored as a zlib stream of these floats: as many as there should be or
  // not. An empty one is stored as bytes that are no such stream.
  void add_deflated(const std::string& name, const std::vector<std::vector<float>>& chunks) {
    const hsize_t axes[] = {2 * chunks.size(), 2}, chunk[] = {2, 2};
    const hid_t space = H5Screate_simple(2, axes, nullptr), how = H5Pcreate(H5P_DATASET_CREATE);
    H5Pset_chunk(how, 2, chunk);
    H5Pset_deflate(how, 6);
    const hid_t set = H5Dcreate2(file_, name.c_str(), H5T_NATIVE_FLOAT, space, H5P_DEFAULT, how, H5P_DEFAULT);
    ASSERT_GE(set, 0);
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      std::vector<Bytef> packed(100, 7);
      uLongf size = packed.size();
      if (!chunks[i].empty()) {
        ASSERT_EQ(compress(packed.data(), &size, reinterpret_cast<const Bytef*>(chunks[i].data()),
                           chunks[i].size() * sizeof(float)),
                  Z_OK);
      }
      const hsize_t place[] = {2 * i, 0};
      EXPECT_GE(H5Dwrite_chunk(set, H5P_DEFAULT, 0, place, size, packed.data()), 0);
    }
    H5Dclose(set);
    H5Pclose(how);
    H5Sclose(space);
  }

 private:
  template <class T>
  static hid_t native() {
    if constexpr (std::is_same_v<T, float>) return H5T_NATIVE_FLOAT;
    if constexpr (std::is_same_v<T, double>) return H5T_NATIVE_DOUBLE;
    if constexpr (std::is_same_v<T, int>) return H5T_NATIVE_INT;
    return -1;
  }
  hid_t file_;
};

}  // namespace tutti::reader
